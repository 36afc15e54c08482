mock_data "aws_caller_identity" {
  defaults = {
    account_id = "123456789012"
  }
}

mock_data "aws_partition" {
  defaults = {
    partition  = "aws-eusc"
    dns_suffix = "amazonaws.eu"
  }
}

mock_data "aws_region" {
  defaults = {
    id   = "eusc-de-east-1"
    name = "eusc-de-east-1"
  }
}

mock_resource "aws_iam_role" {
  defaults = {
    arn = "arn:aws-eusc:iam::123456789012:role/mocked"
  }
}

mock_resource "aws_iam_policy" {
  defaults = {
    arn = "arn:aws-eusc:iam::123456789012:policy/mocked"
  }
}

mock_resource "aws_sqs_queue" {
  defaults = {
    arn = "arn:aws-eusc:sqs:eusc-de-east-1:123456789012:mocked"
    url = "https://sqs.eusc-de-east-1.amazonaws.eu/123456789012/mocked"
  }
}
