# What each variable changes.

mock_provider "aws" {
  source = "./tests/mocks/commercial"
}

variables {
  cluster_name = "prod"
}

run "irsa_names_issuer_and_service_account" {
  command = plan

  variables {
    identity    = "irsa"
    oidc_issuer = "https://oidc.eks.eu-west-1.amazonaws.com/id/ABC"
    namespace   = "karpenter"
  }

  assert {
    condition = jsondecode(aws_iam_role.controller[0].assume_role_policy).Statement[0].Condition.StringEquals == {
      "oidc.eks.eu-west-1.amazonaws.com/id/ABC:aud" = "sts.amazonaws.com"
      "oidc.eks.eu-west-1.amazonaws.com/id/ABC:sub" = "system:serviceaccount:karpenter:karpenter"
    }
    error_message = "another trust document"
  }
  assert {
    condition     = length(aws_eks_pod_identity_association.controller) == 0
    error_message = "an association nobody needs"
  }
}

run "session_tags_tie_the_role_to_cluster_and_service_account" {
  command = plan

  variables {
    pod_identity_trust = "session-tags"
    namespace          = "karpenter"
  }

  assert {
    condition = jsondecode(aws_iam_role.controller[0].assume_role_policy).Statement[0].Condition == {
      StringEquals = {
        "aws:RequestTag/eks-cluster-arn"            = "arn:aws:eks:eu-west-1:123456789012:cluster/prod"
        "aws:RequestTag/kubernetes-namespace"       = "karpenter"
        "aws:RequestTag/kubernetes-service-account" = "karpenter"
      }
    }
    error_message = "another trust document"
  }
}

run "policies_take_another_name_than_the_clusters" {
  command = plan

  variables {
    policy_suffix = "prod-eu-west-1"
  }

  assert {
    condition     = toset([for policy in aws_iam_policy.controller : policy.name]) == toset(["KarpenterNodeLifecycle-prod-eu-west-1", "KarpenterIntegration-prod-eu-west-1"])
    error_message = "other names"
  }
  assert {
    condition     = output.policy_suffix == "prod-eu-west-1"
    error_message = "bootstrap check would look for other names"
  }
}

run "irsa_without_issuer_is_refused" {
  command = plan

  variables {
    identity = "irsa"
  }

  expect_failures = [aws_iam_role.controller]
}

run "without_identity_there_is_neither_role_nor_policy" {
  command = plan

  variables {
    identity = "none"
  }

  assert {
    condition     = length(aws_iam_role.controller) + length(aws_iam_policy.controller) == 0 && output.controller_role_arn == null
    error_message = "something of the controller was made"
  }
}

run "an_existing_node_role_is_left_as_it_is" {
  command = plan

  variables {
    node_role_arn = "arn:aws:iam::123456789012:role/team/nodes"
  }

  assert {
    condition     = length(aws_iam_role.node) + length(aws_iam_role_policy_attachment.node) == 0
    error_message = "a role or an attachment was made"
  }
  assert {
    condition     = aws_iam_instance_profile.node[0].role == "nodes" && output.node_role_name == "nodes"
    error_message = "the name still has its path"
  }
  assert {
    condition     = aws_eks_access_entry.node["nodes"].principal_arn == "arn:aws:iam::123456789012:role/team/nodes"
    error_message = "another principal"
  }
  assert {
    condition     = strcontains(aws_iam_policy.controller["KarpenterIntegration-"].policy, "\"Resource\":[\"arn:aws:iam::123456789012:role/team/nodes\"]")
    error_message = "the controller may not pass it: ${aws_iam_policy.controller["KarpenterIntegration-"].policy}"
  }
}

run "every_role_of_nodes_may_be_passed_and_may_join" {
  command = apply

  variables {
    windows = true
    extra_node_roles = {
      gpu     = { arn = "arn:aws:iam::123456789012:role/gpu" }
      builder = { arn = "arn:aws:iam::123456789012:role/builder", platform = "windows" }
    }
  }

  assert {
    condition = { for name, entry in aws_eks_access_entry.node : name => entry.type } == {
      nodes           = "EC2_LINUX"
      windows-nodes   = "EC2_WINDOWS"
      "extra/gpu"     = "EC2_LINUX"
      "extra/builder" = "EC2_WINDOWS"
    }
    error_message = "other access entries"
  }
  assert {
    condition = sort(one([
      for statement in jsondecode(aws_iam_policy.controller["KarpenterIntegration-"].policy).Statement :
      statement.Resource if statement.Sid == "AllowPassingInstanceRole"
      ])) == tolist([
      "arn:aws:iam::123456789012:role/KarpenterNodeRole-prod",
      "arn:aws:iam::123456789012:role/KarpenterWindowsNodeRole-prod",
      "arn:aws:iam::123456789012:role/builder",
      "arn:aws:iam::123456789012:role/gpu",
    ])
    error_message = "other roles may be passed"
  }
}

run "optional_statements_come_with_their_options" {
  command = plan

  variables {
    zonal_shift              = true
    queue_kms_key_arn        = "arn:aws:kms:eu-west-1:123456789012:key/k"
    extra_ssm_parameter_arns = ["arn:aws:ssm:eu-west-1:123456789012:parameter/ami"]
  }

  assert {
    condition = length(setintersection(
      toset([for statement in jsondecode(aws_iam_policy.controller["KarpenterIntegration-"].policy).Statement : statement.Sid]),
      ["AllowZonalShiftStatusReadOnly", "AllowQueueKeyUse"],
    )) == 2
    error_message = "a statement is missing"
  }
  assert {
    condition     = strcontains(aws_iam_policy.controller["KarpenterIntegration-"].policy, "arn:aws:ssm:eu-west-1:123456789012:parameter/ami")
    error_message = "the parameter may not be read"
  }
  assert {
    condition     = aws_sqs_queue.interruption[0].kms_master_key_id == "arn:aws:kms:eu-west-1:123456789012:key/k"
    error_message = "the queue does not use the key"
  }
}

run "path_and_boundary_reach_every_role" {
  command = plan

  variables {
    iam_path                 = "/platform/karpenter/"
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
  }

  assert {
    condition = alltrue([
      for role in [aws_iam_role.node["linux"], aws_iam_role.controller[0]] :
      role.path == "/platform/karpenter/" && role.permissions_boundary == "arn:aws:iam::123456789012:policy/boundary"
    ])
    error_message = "a role without path or boundary"
  }
  assert {
    condition     = strcontains(aws_iam_policy.controller["KarpenterIntegration-"].policy, "role/platform/karpenter/KarpenterNodeRole-prod")
    error_message = "the role is passed without its path"
  }
}

run "discovery_tags_go_where_they_are_wanted" {
  command = plan

  variables {
    subnet_ids        = ["subnet-1", "subnet-2"]
    security_group_id = "sg-1"
  }

  assert {
    condition     = alltrue([for tag in concat(values(aws_ec2_tag.subnet), aws_ec2_tag.security_group) : tag.key == "karpenter.sh/discovery" && tag.value == "prod"])
    error_message = "another tag"
  }
  assert {
    condition     = { for id, tag in aws_ec2_tag.subnet : id => tag.resource_id } == { subnet-1 = "subnet-1", subnet-2 = "subnet-2" }
    error_message = "other subnets"
  }
}

run "a_group_that_is_not_to_be_tagged_is_not" {
  command = plan

  variables {
    security_group_id  = "sg-1"
    tag_security_group = false
  }

  assert {
    condition     = length(aws_ec2_tag.security_group) == 0
    error_message = "tagged all the same"
  }
}

run "without_a_node_role_one_must_be_named" {
  command = plan

  variables {
    create_node_role = false
  }

  expect_failures = [aws_iam_instance_profile.node[0]]
}

run "bad_values_are_refused" {
  command = plan

  variables {
    cluster_name             = "-prod"
    identity                 = "password"
    pod_identity_trust       = "anybody"
    oidc_issuer              = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC"
    iam_path                 = "platform"
    permissions_boundary_arn = "boundary"
    node_role_arn            = "nodes"
    node_role_name           = "path/nodes"
    windows_node_role_name   = "path/nodes"
    controller_role_name     = "path/controller"
    instance_profile_name    = "path/profile"
    extra_node_policy_arns   = { logs = "logs" }
    extra_ssm_parameter_arns = ["/ami"]
    policy_suffix            = "eu/prod"
    rule_prefix              = "this-prefix-is-too-long-for-what-eventbridge-allows"
    queue_name               = "my queue!"
    queue_kms_key_arn        = "alias/k"
    extra_node_roles         = { beos = { arn = "arn:aws:iam::123456789012:role/beos", platform = "beos" } }
  }

  expect_failures = [
    var.cluster_name,
    var.identity,
    var.pod_identity_trust,
    var.oidc_issuer,
    var.iam_path,
    var.permissions_boundary_arn,
    var.node_role_arn,
    var.node_role_name,
    var.windows_node_role_name,
    var.controller_role_name,
    var.instance_profile_name,
    var.extra_node_policy_arns,
    var.extra_ssm_parameter_arns,
    var.policy_suffix,
    var.rule_prefix,
    var.queue_name,
    var.queue_kms_key_arn,
    var.extra_node_roles,
  ]
}

run "an_issuer_with_a_slash_at_its_end_is_refused" {
  command = plan

  variables {
    identity    = "irsa"
    oidc_issuer = "https://oidc.eks.eu-west-1.amazonaws.com/id/ABC/"
  }

  expect_failures = [var.oidc_issuer]
}

run "a_role_of_nodes_that_is_named_twice_is_refused" {
  command = plan

  variables {
    node_role_arn    = "arn:aws:iam::123456789012:role/nodes"
    extra_node_roles = { again = { arn = "arn:aws:iam::123456789012:role/nodes" } }
  }

  expect_failures = [aws_iam_instance_profile.node[0]]
}

run "a_group_that_is_to_be_tagged_must_be_named" {
  command = plan

  variables {
    tag_security_group = true
  }

  expect_failures = [aws_ec2_tag.security_group]
}
