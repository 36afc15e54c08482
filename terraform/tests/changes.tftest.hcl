# What a change of a list or map does to what is there already: nothing, but for what was added or taken away.
#
# Every run applies on top of the one before. A tag or an attachment lives at an address that says what it is about, so
# that the address of one never comes to mean another.

mock_provider "aws" {
  source = "./tests/mocks/commercial"
}

variables {
  cluster_name = "prod"
  subnet_ids   = ["subnet-a", "subnet-c"]
  extra_node_policy_arns = {
    backup = "arn:aws:iam::123456789012:policy/backup"
    logs   = "arn:aws:iam::123456789012:policy/logs"
  }
}

run "before" {
  command = apply

  assert {
    condition     = { for address, tag in aws_ec2_tag.subnet : address => tag.resource_id } == { subnet-a = "subnet-a", subnet-c = "subnet-c" }
    error_message = "a tag whose address does not say which subnet it is on"
  }
  assert {
    condition = { for address, attachment in aws_iam_role_policy_attachment.node_extra : address => attachment.policy_arn } == {
      "linux/backup" = "arn:aws:iam::123456789012:policy/backup"
      "linux/logs"   = "arn:aws:iam::123456789012:policy/logs"
    }
    error_message = "an attachment whose address does not say which policy it is of"
  }
}

run "one_is_added_in_the_middle" {
  command = apply

  variables {
    subnet_ids = ["subnet-a", "subnet-b", "subnet-c"]
    extra_node_policy_arns = {
      backup  = "arn:aws:iam::123456789012:policy/backup"
      compute = "arn:aws:iam::123456789012:policy/compute"
      logs    = "arn:aws:iam::123456789012:policy/logs"
    }
  }

  assert {
    condition = { for address, tag in aws_ec2_tag.subnet : address => tag.resource_id } == {
      subnet-a = "subnet-a", subnet-b = "subnet-b", subnet-c = "subnet-c"
    }
    error_message = "an address has come to mean another subnet"
  }
  assert {
    condition = { for address, attachment in aws_iam_role_policy_attachment.node_extra : address => attachment.policy_arn } == {
      "linux/backup"  = "arn:aws:iam::123456789012:policy/backup"
      "linux/compute" = "arn:aws:iam::123456789012:policy/compute"
      "linux/logs"    = "arn:aws:iam::123456789012:policy/logs"
    }
    error_message = "an address has come to mean another policy"
  }
}

run "the_same_in_another_order" {
  command = apply

  variables {
    subnet_ids = ["subnet-c", "subnet-a", "subnet-b"]
  }

  assert {
    condition     = alltrue([for address, tag in aws_ec2_tag.subnet : tag.resource_id == address])
    error_message = "an address has come to mean another subnet"
  }
}

run "the_first_is_taken_away" {
  command = apply

  variables {
    subnet_ids             = ["subnet-b", "subnet-c"]
    extra_node_policy_arns = { logs = "arn:aws:iam::123456789012:policy/logs" }
  }

  assert {
    condition     = { for address, tag in aws_ec2_tag.subnet : address => tag.resource_id } == { subnet-b = "subnet-b", subnet-c = "subnet-c" }
    error_message = "an address has come to mean another subnet"
  }
  assert {
    condition     = { for address, attachment in aws_iam_role_policy_attachment.node_extra : address => attachment.policy_arn } == { "linux/logs" = "arn:aws:iam::123456789012:policy/logs" }
    error_message = "an address has come to mean another policy"
  }
}
