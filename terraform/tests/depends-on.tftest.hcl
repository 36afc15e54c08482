# What an update of the cluster does where the whole module has `depends_on`: its data sources are read after the cluster has
# changed, so that a plan knows no ARN made of them. https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3696
#
# A value that the plan does not know cannot be asserted: each assertion fails if what it names would be replaced.

mock_provider "aws" {
  source = "./tests/mocks/commercial"
}

run "cluster" {
  command = apply

  module {
    source = "./tests/depends-on"
  }
  variables {
    cluster_version = "1.33"
  }
}

run "an_update_of_the_cluster_detaches_no_policy_of_nodes" {
  command = plan

  module {
    source = "./tests/depends-on"
  }
  variables {
    cluster_version = "1.34"
  }
  assert {
    condition     = output.node_policy_arns == run.cluster.node_policy_arns && length(output.node_policy_arns) == 5
    error_message = "policies of the node role are attached again"
  }
}

run "a_caller_who_names_the_account_sees_every_document" {
  command = plan

  module {
    source = "./tests/depends-on"
  }
  variables {
    cluster_version = "1.34"
    account         = { partition = "aws", id = "123456789012", region = "eu-west-1" }
  }
  assert {
    condition     = output.controller_policy_documents == run.cluster.controller_policy_documents
    error_message = "the documents say something else"
  }
}

run "cluster_of_ipv6" {
  command = apply

  module {
    source = "./tests/depends-on"
  }
  variables {
    cluster_version   = "1.33"
    cluster_ip_family = "ipv6"
  }
  assert {
    condition     = contains(output.node_policy_arns, "arn:aws:iam::123456789012:policy/AmazonEKS_CNI_IPv6_Policy")
    error_message = "the policy of the account is not attached"
  }
}

run "an_update_of_a_cluster_of_ipv6_detaches_no_policy_of_nodes" {
  command = plan

  module {
    source = "./tests/depends-on"
  }
  variables {
    cluster_version   = "1.34"
    cluster_ip_family = "ipv6"
  }
  assert {
    condition     = output.node_policy_arns == run.cluster_of_ipv6.node_policy_arns && length(output.node_policy_arns) == 5
    error_message = "policies of the node role are attached again"
  }
}
