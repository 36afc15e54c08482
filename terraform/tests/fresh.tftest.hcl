# The first plan of a configuration that also makes the cluster and the node role.

mock_provider "aws" {
  source = "./tests/mocks/commercial"
}

variables {
  cluster_name = "prod"
}

run "the_first_plan_needs_no_ids" {
  command = plan

  module {
    source = "./tests/fresh"
  }
}

run "the_role_is_named_and_none_is_made" {
  command = apply

  module {
    source = "./tests/fresh"
  }

  assert {
    condition     = output.karpenter.node_role_name == "nodes" && output.karpenter.node_role_arn == "arn:aws:iam::123456789012:role/team/nodes"
    error_message = "another node role"
  }
}
