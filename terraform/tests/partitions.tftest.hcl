# China, GovCloud and the European sovereign cloud: other ARNs, and in China another name of EC2.

mock_provider "aws" {
  alias  = "china"
  source = "./tests/mocks/china"
}

mock_provider "aws" {
  alias  = "govcloud"
  source = "./tests/mocks/govcloud"
}

mock_provider "aws" {
  alias  = "eusc"
  source = "./tests/mocks/eusc"
}

variables {
  cluster_name = "prod"
}

run "china" {
  command = plan

  providers = {
    aws = aws.china
  }

  assert {
    condition     = jsondecode(aws_iam_role.node["linux"].assume_role_policy).Statement[0].Principal.Service == "ec2.amazonaws.com.cn"
    error_message = "another principal"
  }
  assert {
    condition     = strcontains(aws_iam_policy.controller["KarpenterIntegration-"].policy, "\"iam:PassedToService\":[\"ec2.amazonaws.com\",\"ec2.amazonaws.com.cn\"]")
    error_message = "the role is not passed to both names of EC2"
  }
}

run "govcloud" {
  command = plan

  providers = {
    aws = aws.govcloud
  }

  assert {
    condition     = jsondecode(aws_iam_role.node["linux"].assume_role_policy).Statement[0].Principal.Service == "ec2.amazonaws.com"
    error_message = "another principal"
  }
  assert {
    condition = alltrue([
      for attachment in aws_iam_role_policy_attachment.node : startswith(attachment.policy_arn, "arn:aws-us-gov:iam::aws:policy/")
    ])
    error_message = "policies of another partition"
  }
  assert {
    condition     = !strcontains(join("", [for policy in aws_iam_policy.controller : policy.policy]), "arn:aws:")
    error_message = "an ARN of another partition"
  }
}

# IAM refuses `ec2.amazonaws.eu` as an invalid principal.
run "european_sovereign_cloud" {
  command = plan

  providers = {
    aws = aws.eusc
  }

  assert {
    condition     = jsondecode(aws_iam_role.node["linux"].assume_role_policy).Statement[0].Principal.Service == "ec2.amazonaws.com"
    error_message = "another principal"
  }
  assert {
    condition     = !strcontains(join("", [for policy in aws_iam_policy.controller : policy.policy]), "arn:aws:")
    error_message = "an ARN of another partition"
  }
}
