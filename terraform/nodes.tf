# The roles of nodes, their instance profile, and how nodes join and are found.

locals {
  node_roles = merge(
    local.make_node_role ? { linux = { name = local.names.node_role, description = coalesce(var.node_role_description, local.facts.descriptions.node_role) } } : {},
    local.make_windows_role ? { windows = { name = local.names.windows_node_role, description = local.facts.descriptions.windows_node_role } } : {},
  )

  # A cluster of IPv6 takes the policy that the account has for it: AWS manages none.
  cni_policy = "AmazonEKS_CNI_Policy"
  managed_node_policies = [
    for name in local.facts.node_policies : name
    if name != local.cni_policy || (var.attach_cni_policy && var.cluster_ip_family == "ipv4")
  ]
  own_node_policies = var.attach_cni_policy && var.cluster_ip_family == "ipv6" ? {
    AmazonEKS_CNI_IPv6_Policy = "arn:${local.partition}:iam::${local.account_id}:policy/AmazonEKS_CNI_IPv6_Policy"
  } : {}

  node_policies = {
    for pair in setproduct(keys(local.node_roles), concat(local.managed_node_policies, keys(local.own_node_policies))) : "${pair[0]}/${pair[1]}" => {
      role   = pair[0]
      policy = lookup(local.own_node_policies, pair[1], "arn:${local.partition}:iam::aws:policy/${pair[1]}")
    }
  }

  # By the names the caller gave, because an ARN may be known only after apply.
  extra_node_policies = {
    for pair in setproduct(keys(local.node_roles), keys(var.extra_node_policy_arns)) : "${pair[0]}/${pair[1]}" => {
      role   = pair[0]
      policy = var.extra_node_policy_arns[pair[1]]
    }
  }

  access_entries = merge(
    { nodes = { principal = local.make_node_role ? aws_iam_role.node["linux"].arn : local.node_role_arn, type = "EC2_LINUX" } },
    local.make_windows_role ? { windows-nodes = { principal = aws_iam_role.node["windows"].arn, type = "EC2_WINDOWS" } } : {},
    {
      for name, role in var.extra_node_roles : "extra/${name}" => {
        principal = role.arn
        type      = role.platform == "windows" ? "EC2_WINDOWS" : "EC2_LINUX"
      }
    },
  )
}

resource "aws_iam_role" "node" {
  for_each = local.node_roles

  name                 = each.value.name
  path                 = var.iam_path
  description          = each.value.description
  max_session_duration = var.node_role_max_session_duration
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = templatefile("${path.module}/generated/node-trust.json.tftpl", local.values)
  tags                 = merge(local.tags, var.node_role_tags)
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = local.node_policies

  role       = aws_iam_role.node[each.value.role].name
  policy_arn = each.value.policy

  # The address names the policy, so its ARN stays what it is. A plan that does not know the ARN would take the policy away
  # from the role of running nodes, to attach the same again.
  lifecycle {
    ignore_changes = [policy_arn]
  }
}

resource "aws_iam_role_policy_attachment" "node_extra" {
  for_each = local.extra_node_policies

  role       = aws_iam_role.node[each.value.role].name
  policy_arn = each.value.policy
}

resource "aws_iam_instance_profile" "node" {
  count = local.make_instance_profile ? 1 : 0

  name = local.names.instance_profile
  path = var.iam_path
  role = local.make_node_role ? aws_iam_role.node["linux"].name : local.names.node_role
  tags = local.tags

  lifecycle {
    precondition {
      condition     = local.make_node_role || var.node_role_arn != null
      error_message = "With create_node_role = false, node_role_arn must name the role that nodes have."
    }
    # EKS makes one access entry for a role, whatever runs on its nodes.
    precondition {
      condition     = length(distinct(concat([local.node_role_arn], local.more_node_role_arns))) == 1 + length(local.more_node_role_arns)
      error_message = "A role of nodes is named twice: extra_node_roles are further ones, besides the node role and the one for Windows."
    }
  }
}

resource "aws_eks_access_entry" "node" {
  for_each = { for name, entry in local.access_entries : name => entry if local.make_access_entries }

  cluster_name  = var.cluster_name
  principal_arn = each.value.principal
  type          = each.value.type
  tags          = local.tags
}

resource "aws_iam_service_linked_role" "spot" {
  count = var.create && var.create_spot_service_linked_role ? 1 : 0

  aws_service_name = "spot.amazonaws.com"
}

# By id and not by place: a subnet that comes or goes leaves the tags of the others alone. Terraform refuses ids that it
# does not know yet, and rightly: a subnet made in the same configuration has to be tagged where it is made.
resource "aws_ec2_tag" "subnet" {
  for_each = var.create ? var.subnet_ids : toset([])

  resource_id = each.value
  key         = "karpenter.sh/discovery"
  value       = var.cluster_name
}

resource "aws_ec2_tag" "security_group" {
  count = var.create && (var.tag_security_group != null ? var.tag_security_group : var.security_group_id != null) ? 1 : 0

  resource_id = var.security_group_id
  key         = "karpenter.sh/discovery"
  value       = var.cluster_name

  lifecycle {
    precondition {
      condition     = var.security_group_id != null
      error_message = "tag_security_group = true needs security_group_id."
    }
  }
}

moved {
  from = aws_iam_role_policy_attachment.node_extra["linux/AmazonEKS_CNI_IPv6_Policy"]
  to   = aws_iam_role_policy_attachment.node["linux/AmazonEKS_CNI_IPv6_Policy"]
}

moved {
  from = aws_iam_role_policy_attachment.node_extra["windows/AmazonEKS_CNI_IPv6_Policy"]
  to   = aws_iam_role_policy_attachment.node["windows/AmazonEKS_CNI_IPv6_Policy"]
}

moved {
  from = aws_iam_instance_profile.node
  to   = aws_iam_instance_profile.node[0]
}
