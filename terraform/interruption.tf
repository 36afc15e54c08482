# The queue that announces what happens to instances, and the rules that fill it.

resource "aws_sqs_queue" "interruption" {
  name                      = local.names.queue
  message_retention_seconds = tonumber(local.facts.queue_attributes.MessageRetentionPeriod)

  # The two exclude each other.
  sqs_managed_sse_enabled = var.queue_kms_key_arn == null ? true : null
  kms_master_key_id       = var.queue_kms_key_arn

  tags = local.tags
}

resource "aws_sqs_queue_policy" "interruption" {
  queue_url = aws_sqs_queue.interruption.url
  policy    = templatefile("${path.module}/generated/queue-policy.json.tftpl", local.values)
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = { for rule in local.facts.rules : trimprefix(rule.suffix, "-") => rule }

  name          = "${local.names.rule}${each.value.suffix}"
  description   = each.value.description
  event_pattern = jsonencode(each.value.pattern)
  tags          = local.tags
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = aws_cloudwatch_event_rule.interruption

  rule      = each.value.name
  target_id = local.facts.rule_target_id
  arn       = aws_sqs_queue.interruption.arn
}
