# What an ordinary cluster gets.

mock_provider "aws" {
  source = "./tests/mocks/commercial"
}

variables {
  cluster_name = "prod"
}

run "names_are_those_the_ecosystem_knows" {
  command = plan

  assert {
    condition     = aws_iam_role.node["linux"].name == "KarpenterNodeRole-prod"
    error_message = "node role ${aws_iam_role.node["linux"].name}"
  }
  assert {
    condition     = aws_iam_role.controller[0].name == "prod-karpenter"
    error_message = "controller role ${aws_iam_role.controller[0].name}"
  }
  assert {
    condition     = aws_sqs_queue.interruption[0].name == "prod"
    error_message = "queue ${aws_sqs_queue.interruption[0].name}"
  }
  assert {
    condition = sort([for rule in aws_cloudwatch_event_rule.interruption : rule.name]) == tolist([
      "Karpenter-prod-CRInterruption",
      "Karpenter-prod-HealthEvent",
      "Karpenter-prod-InstanceRebalance",
      "Karpenter-prod-InstanceStateChange",
      "Karpenter-prod-SpotInterrupt",
    ])
    error_message = "rules of other names"
  }
}

run "nodes_get_what_they_need_and_may_join" {
  command = plan

  assert {
    condition = sort([for attachment in aws_iam_role_policy_attachment.node : attachment.policy_arn]) == tolist([
      "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
      "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
      "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy",
      "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore",
    ])
    error_message = "other policies of the node role"
  }
  assert {
    condition     = [for entry in aws_eks_access_entry.node : entry.type] == ["EC2_LINUX"]
    error_message = "other access entries"
  }
}

run "the_queue_is_encrypted_and_only_its_rules_may_send" {
  command = plan

  assert {
    condition     = aws_sqs_queue.interruption[0].sqs_managed_sse_enabled && aws_sqs_queue.interruption[0].kms_master_key_id == null
    error_message = "not encrypted by SQS"
  }
  assert {
    condition     = aws_sqs_queue.interruption[0].message_retention_seconds == 300
    error_message = "another retention"
  }
  assert {
    condition = alltrue([
      for rule in aws_cloudwatch_event_rule.interruption :
      contains(jsondecode(aws_sqs_queue_policy.interruption[0].policy).Statement[0].Condition.ArnEquals["aws:SourceArn"], "arn:aws:events:eu-west-1:123456789012:rule/${rule.name}")
    ])
    error_message = "a rule that may not send"
  }
}

run "nothing_of_the_account_or_of_others_is_touched_unasked" {
  command = plan

  assert {
    condition     = length(aws_iam_service_linked_role.spot) + length(aws_ec2_tag.subnet) + length(aws_ec2_tag.security_group) == 0
    error_message = "something was made that nobody asked for"
  }
}

run "both_policies_fit" {
  command = plan

  assert {
    condition     = alltrue([for policy in aws_iam_policy.controller : length(policy.policy) <= 6144]) && length(aws_iam_policy.controller) == 2
    error_message = "a policy IAM refuses"
  }
}
