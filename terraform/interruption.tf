# The queue that announces what happens to instances, and the rules that fill it.

resource "aws_sqs_queue" "interruption" {
  count = local.make_queue ? 1 : 0

  name                      = local.names.queue
  message_retention_seconds = tonumber(local.facts.queue_attributes.MessageRetentionPeriod)

  # The two exclude each other.
  sqs_managed_sse_enabled = var.queue_kms_key_arn == null ? true : null
  kms_master_key_id       = var.queue_kms_key_arn

  kms_data_key_reuse_period_seconds = var.queue_kms_data_key_reuse_period_seconds

  tags = local.tags
}

locals {
  queue_policy = jsondecode(templatefile("${path.module}/generated/queue-policy.json.tftpl", local.values))
}

resource "aws_sqs_queue_policy" "interruption" {
  count = local.make_queue ? 1 : 0

  queue_url = aws_sqs_queue.interruption[0].url
  policy = jsonencode(merge(local.queue_policy, {
    Statement = concat(local.queue_policy.Statement, [for statement in var.extra_queue_statements : jsondecode(statement)])
  }))
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = { for rule in local.facts.rules : trimprefix(rule.suffix, "-") => rule if local.make_queue }

  name          = "${local.names.rule}${each.value.suffix}"
  description   = each.value.description
  event_pattern = jsonencode(each.value.pattern)
  tags          = local.tags
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = aws_cloudwatch_event_rule.interruption

  rule      = each.value.name
  target_id = local.facts.rule_target_id
  arn       = aws_sqs_queue.interruption[0].arn
}

# Each was one thing before it could be left out.
moved {
  from = aws_sqs_queue.interruption
  to   = aws_sqs_queue.interruption[0]
}

moved {
  from = aws_sqs_queue_policy.interruption
  to   = aws_sqs_queue_policy.interruption[0]
}
