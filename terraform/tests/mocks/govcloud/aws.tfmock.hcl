mock_data "aws_caller_identity" {
  defaults = {
    account_id = "123456789012"
  }
}

mock_data "aws_partition" {
  defaults = {
    partition  = "aws-us-gov"
    dns_suffix = "amazonaws.com"
  }
}

mock_data "aws_region" {
  defaults = {
    id   = "us-gov-west-1"
    name = "us-gov-west-1"
  }
}

mock_resource "aws_iam_role" {
  defaults = {
    arn = "arn:aws-us-gov:iam::123456789012:role/mocked"
  }
}

mock_resource "aws_iam_policy" {
  defaults = {
    arn = "arn:aws-us-gov:iam::123456789012:policy/mocked"
  }
}

mock_resource "aws_sqs_queue" {
  defaults = {
    arn = "arn:aws-us-gov:sqs:us-gov-west-1:123456789012:mocked"
    url = "https://sqs.us-gov-west-1.amazonaws.com/123456789012/mocked"
  }
}
