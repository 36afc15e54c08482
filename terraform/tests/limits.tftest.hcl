# The longest cluster name EKS allows: every name and both policies still fit, under the names that
# `karpenter bootstrap` would choose.

mock_provider "aws" {
  source = "./tests/mocks/commercial"
}

variables {
  cluster_name = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
}

run "every_name_is_cut_to_what_aws_allows" {
  command = plan

  assert {
    condition     = length(var.cluster_name) == 100
    error_message = "not the longest name"
  }
  assert {
    condition     = length(aws_iam_role.node["linux"].name) == 64 && length(aws_iam_role.controller[0].name) == 64
    error_message = "a role's name of another length"
  }
  assert {
    condition     = aws_iam_role.node["linux"].name == "KarpenterNodeRole-${substr(var.cluster_name, 0, 37)}-${substr(sha256("KarpenterNodeRole-${var.cluster_name}"), 0, 8)}"
    error_message = "not the name `karpenter bootstrap` chooses: ${aws_iam_role.node["linux"].name}"
  }
  assert {
    condition     = alltrue([for rule in aws_cloudwatch_event_rule.interruption : length(rule.name) <= 64]) && length(aws_sqs_queue.interruption[0].name) <= 80
    error_message = "a rule's or the queue's name is too long"
  }
  assert {
    condition     = alltrue([for policy in aws_iam_policy.controller : length(policy.name) <= 128 && length(policy.policy) <= 6144])
    error_message = "a policy IAM refuses"
  }
}
