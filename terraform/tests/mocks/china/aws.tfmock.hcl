mock_data "aws_caller_identity" {
  defaults = {
    account_id = "123456789012"
  }
}

mock_data "aws_partition" {
  defaults = {
    partition  = "aws-cn"
    dns_suffix = "amazonaws.com.cn"
  }
}

mock_data "aws_region" {
  defaults = {
    id   = "cn-north-1"
    name = "cn-north-1"
  }
}

mock_resource "aws_iam_role" {
  defaults = {
    arn = "arn:aws-cn:iam::123456789012:role/mocked"
  }
}

mock_resource "aws_iam_policy" {
  defaults = {
    arn = "arn:aws-cn:iam::123456789012:policy/mocked"
  }
}

mock_resource "aws_sqs_queue" {
  defaults = {
    arn = "arn:aws-cn:sqs:cn-north-1:123456789012:mocked"
    url = "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/mocked"
  }
}
