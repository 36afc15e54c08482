# A part of the whole: everything can be left out, and each submodule makes its own things only.

mock_provider "aws" {
  source = "./tests/mocks/commercial"
}

variables {
  cluster_name = "prod"
}

run "without_create_nothing_is_made" {
  command = plan

  variables {
    create                          = false
    windows                         = true
    create_spot_service_linked_role = true
    subnet_ids                      = ["subnet-a"]
    security_group_id               = "sg-1"
    extra_controller_policy_arns    = { read = "arn:aws:iam::aws:policy/ReadOnlyAccess" }
  }

  assert {
    condition = 0 == sum([
      length(aws_iam_policy.controller), length(aws_iam_role.controller), length(aws_iam_role_policy_attachment.controller),
      length(aws_iam_role_policy_attachment.controller_extra), length(aws_eks_pod_identity_association.controller),
      length(aws_iam_role.node), length(aws_iam_role_policy_attachment.node), length(aws_iam_role_policy_attachment.node_extra),
      length(aws_iam_instance_profile.node), length(aws_eks_access_entry.node), length(aws_iam_service_linked_role.spot),
      length(aws_ec2_tag.subnet), length(aws_ec2_tag.security_group), length(aws_sqs_queue.interruption),
      length(aws_sqs_queue_policy.interruption), length(aws_cloudwatch_event_rule.interruption), length(aws_cloudwatch_event_target.interruption),
    ])
    error_message = "something was made"
  }
}

run "without_a_queue_there_is_no_right_on_one" {
  command = plan

  variables {
    create_queue = false
  }

  assert {
    condition     = !strcontains(aws_iam_policy.controller["KarpenterIntegration-"].policy, "sqs:")
    error_message = "a right on a queue that is not there"
  }
  assert {
    condition     = output.queue_name == null && output.chart_values.settings.interruptionQueue == ""
    error_message = "a queue is named"
  }
}

run "a_queue_of_another_module_is_named_and_not_made" {
  command = plan

  variables {
    create_queue = false
    queue_name   = "elsewhere"
  }

  assert {
    condition     = strcontains(aws_iam_policy.controller["KarpenterIntegration-"].policy, "arn:aws:sqs:eu-west-1:123456789012:elsewhere")
    error_message = "the controller may not read it"
  }
  assert {
    condition     = length(aws_sqs_queue.interruption) == 0 && output.queue_name == "elsewhere" && output.chart_values.settings.interruptionQueue == "elsewhere"
    error_message = "it is made, or not named"
  }
}

run "what_the_caller_adds_stands_beside_ours" {
  command = apply

  variables {
    extra_controller_statements       = [jsonencode({ Sid = "Mine", Effect = "Allow", Action = "ec2:DescribeVpcs", Resource = "*" })]
    extra_controller_trust_statements = [jsonencode({ Sid = "Mine", Effect = "Allow", Action = "sts:AssumeRole", Principal = { AWS = "arn:aws:iam::123456789012:role/admin" } })]
    extra_queue_statements            = [jsonencode({ Sid = "Mine", Effect = "Deny", Action = "sqs:PurgeQueue", Principal = "*", Resource = "*" })]
    extra_controller_policy_arns      = { read = "arn:aws:iam::aws:policy/ReadOnlyAccess" }
    controller_role_tags              = { team = "platform" }
    node_role_tags                    = { team = "nodes" }
    controller_role_description       = "Mine"
    controller_policy_description     = "Mine"
    node_role_description             = "Mine"

    controller_role_max_session_duration    = 7200
    node_role_max_session_duration          = 3600
    queue_kms_key_arn                       = "arn:aws:kms:eu-west-1:123456789012:key/k"
    queue_kms_data_key_reuse_period_seconds = 600
  }

  assert {
    condition     = "Mine" == reverse(jsondecode(aws_iam_policy.controller["KarpenterIntegration-"].policy).Statement)[0].Sid
    error_message = "the policy lacks the statement"
  }
  assert {
    condition     = !strcontains(aws_iam_policy.controller["KarpenterNodeLifecycle-"].policy, "\"Mine\"")
    error_message = "the statement stands twice"
  }
  assert {
    condition     = [for statement in jsondecode(aws_iam_role.controller[0].assume_role_policy).Statement : statement.Sid][1] == "Mine"
    error_message = "the trust document lacks the statement"
  }
  assert {
    condition     = "Mine" == reverse(jsondecode(aws_sqs_queue_policy.interruption[0].policy).Statement)[0].Sid && length(jsondecode(aws_sqs_queue_policy.interruption[0].policy).Statement) > 1
    error_message = "the policy of the queue lacks a statement"
  }
  assert {
    condition     = aws_iam_role_policy_attachment.controller_extra["read"].policy_arn == "arn:aws:iam::aws:policy/ReadOnlyAccess"
    error_message = "the policy is not attached"
  }
  assert {
    condition     = aws_iam_role.controller[0].tags == tomap({ team = "platform", "eks:eks-cluster-name" = "prod" }) && aws_iam_role.node["linux"].tags["team"] == "nodes"
    error_message = "other tags"
  }
  assert {
    condition     = alltrue([for text in [aws_iam_role.controller[0].description, aws_iam_role.node["linux"].description, aws_iam_policy.controller["KarpenterIntegration-"].description] : text == "Mine"])
    error_message = "other descriptions"
  }
  assert {
    condition     = aws_iam_role.controller[0].max_session_duration == 7200 && aws_iam_role.node["linux"].max_session_duration == 3600 && aws_sqs_queue.interruption[0].kms_data_key_reuse_period_seconds == 600
    error_message = "other durations"
  }
}

run "ipv6_takes_the_policy_of_the_account" {
  command = plan

  variables {
    cluster_ip_family = "ipv6"
  }

  assert {
    condition     = !contains([for attachment in aws_iam_role_policy_attachment.node : attachment.policy_arn], "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
    error_message = "the policy of IPv4 is attached"
  }
  assert {
    condition     = aws_iam_role_policy_attachment.node["linux/AmazonEKS_CNI_IPv6_Policy"].policy_arn == "arn:aws:iam::123456789012:policy/AmazonEKS_CNI_IPv6_Policy"
    error_message = "the policy of IPv6 is not attached"
  }
}

run "a_cni_with_a_role_of_its_own_leaves_the_nodes_without" {
  command = plan

  variables {
    attach_cni_policy = false
  }

  assert {
    condition     = length(aws_iam_role_policy_attachment.node) == 3 && length(aws_iam_role_policy_attachment.node_extra) == 0
    error_message = "other policies of the node role"
  }
}

run "an_association_made_elsewhere_is_not_made_again" {
  command = plan

  variables {
    create_pod_identity_association = false
  }

  assert {
    condition     = length(aws_eks_pod_identity_association.controller) == 0 && length(aws_iam_role.controller) == 1
    error_message = "an association, or no role"
  }
}

run "statements_are_json" {
  command = plan

  variables {
    extra_controller_statements       = ["Allow"]
    extra_controller_trust_statements = ["[]"]
    extra_queue_statements            = ["{}"]
  }

  expect_failures = [var.extra_controller_statements, var.extra_controller_trust_statements, var.extra_queue_statements]
}

run "durations_are_within_what_aws_allows" {
  command = plan

  variables {
    controller_role_max_session_duration    = 60
    node_role_max_session_duration          = 86400
    queue_kms_data_key_reuse_period_seconds = 1
  }

  expect_failures = [
    var.controller_role_max_session_duration, var.node_role_max_session_duration, var.queue_kms_data_key_reuse_period_seconds,
  ]
}

run "the_policies_alone" {
  command = apply

  module {
    source = "./policies"
  }

  variables {
    node_role_arn        = "arn:aws:iam::123456789012:role/nodes"
    extra_node_role_arns = ["arn:aws:iam::123456789012:role/gpu"]
    queue_name           = "elsewhere"
  }

  assert {
    condition     = length(output.policy_arns) == 2
    error_message = "other policies"
  }
  assert {
    condition     = alltrue([for text in ["role/nodes", "role/gpu", ":elsewhere"] : strcontains(output.policy_documents["KarpenterIntegration-"], text)])
    error_message = "a right is missing"
  }
}

run "the_node_role_alone" {
  command = apply

  module {
    source = "./node-role"
  }

  assert {
    condition     = output.name == "KarpenterNodeRole-prod" && output.instance_profile_name == "KarpenterNodeInstanceProfile-prod" && output.access_entry_arn != null
    error_message = "other names, or no access entry"
  }
}

run "the_queue_alone" {
  command = apply

  module {
    source = "./queue"
  }

  variables {
    name = "interruptions"
  }

  assert {
    condition     = output.name == "interruptions" && output.url != null && length(output.event_rules) == 5
    error_message = "another queue, or other rules"
  }
}
