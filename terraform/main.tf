# What Karpenter needs in an AWS account for one EKS cluster.
#
# Documents, rules and AWS-managed policies come from generated/, which `karpenter bootstrap` is the source of; the files
# here hold resources and variables only.

# Where a module depends on others that change, Terraform reads these only while it applies: a plan then knows no ARN that is
# put together from them. What the caller says is not looked up.

data "aws_caller_identity" "current" {
  count = var.account_id == null ? 1 : 0
}

data "aws_partition" "current" {
  count = var.partition == null ? 1 : 0
}

data "aws_region" "current" {
  count = var.region == null ? 1 : 0
}

locals {
  account_id = var.account_id == null ? one(data.aws_caller_identity.current[*].account_id) : var.account_id
  partition  = var.partition == null ? one(data.aws_partition.current[*].partition) : var.partition
  region     = var.region == null ? one(data.aws_region.current[*].id) : var.region
  dns_suffix = local.partition == "aws-cn" ? "amazonaws.com.cn" : "amazonaws.com"

  facts = jsondecode(file("${path.module}/generated/facts.json"))
  tags  = merge(var.tags, { "eks:eks-cluster-name" = var.cluster_name })

  make_controller_policies = var.create ? var.identity != "none" : false
  make_controller_role     = var.create ? contains(["pod-identity", "irsa"], var.identity) : false
  make_queue               = var.create && var.create_queue
  make_instance_profile    = var.create && var.create_instance_profile
  make_access_entries      = var.create && var.access_entry
  # Known before anything is made, whatever the ARN is going to be: `&&` would wait for it.
  make_node_role    = var.create && var.create_node_role ? var.node_role_arn == null : false
  make_windows_role = var.create && var.windows

  # The longest name AWS allows each thing, and what stands around the cluster's name in it.
  patterns = {
    node_role         = { prefix = "KarpenterNodeRole-", suffix = "", longest = 64 }
    windows_node_role = { prefix = "KarpenterWindowsNodeRole-", suffix = "", longest = 64 }
    controller_role   = { prefix = "", suffix = "-karpenter", longest = 64 }
    instance_profile  = { prefix = "KarpenterNodeInstanceProfile-", suffix = "", longest = 128 }
    queue             = { prefix = "", suffix = "", longest = 80 }
    rule              = { prefix = "Karpenter-", suffix = "", longest = 44 }
  }

  # A name that is too long is cut and gets a hash of the whole, exactly as `karpenter bootstrap` does it.
  computed = {
    for key, pattern in local.patterns : key => (
      length("${pattern.prefix}${var.cluster_name}${pattern.suffix}") <= pattern.longest
      ? "${pattern.prefix}${var.cluster_name}${pattern.suffix}"
      : join("", [
        pattern.prefix,
        replace(substr(var.cluster_name, 0, pattern.longest - length(pattern.prefix) - length(pattern.suffix) - 9), "/[-_]+$/", ""),
        "-",
        substr(sha256("${pattern.prefix}${var.cluster_name}${pattern.suffix}"), 0, 8),
        pattern.suffix,
      ])
    )
  }

  names = {
    node_role         = local.make_node_role ? coalesce(var.node_role_name, local.computed.node_role) : reverse(split("/", local.node_role_arn))[0]
    windows_node_role = coalesce(var.windows_node_role_name, local.computed.windows_node_role)
    controller_role   = coalesce(var.controller_role_name, local.computed.controller_role)
    instance_profile  = coalesce(var.instance_profile_name, local.computed.instance_profile)
    policy_suffix     = coalesce(var.policy_suffix, var.cluster_name)
    queue             = coalesce(var.queue_name, local.computed.queue)
    rule              = coalesce(var.rule_prefix, local.computed.rule)
  }

  # ARNs are put together rather than read from resources, so that a plan shows every document in full.
  role_arn_prefix       = "arn:${local.partition}:iam::${local.account_id}:role${var.iam_path}"
  made_node_role_arn    = "${local.role_arn_prefix}${coalesce(var.node_role_name, local.computed.node_role)}"
  node_role_arn         = local.make_node_role ? local.made_node_role_arn : coalesce(var.node_role_arn, local.made_node_role_arn)
  windows_node_role_arn = "${local.role_arn_prefix}${local.names.windows_node_role}"

  more_node_role_arns = concat(
    var.windows ? [local.windows_node_role_arn] : [],
    [for role in values(var.extra_node_roles) : role.arn],
  )

  # What the templates in generated/ are filled in with. Lists become elements that each end with a comma. IAM refuses
  # ec2.amazonaws.eu as a principal.
  values = {
    account_id              = local.account_id
    cluster_name            = var.cluster_name
    ec2_principal           = "ec2.${local.dns_suffix}"
    iam_path                = var.iam_path
    more_node_role_arns     = join("", [for arn in local.more_node_role_arns : "${jsonencode(arn)},"])
    more_ssm_parameter_arns = join("", [for arn in var.extra_ssm_parameter_arns : "${jsonencode(arn)},"])
    namespace               = var.namespace
    node_role_arn           = local.node_role_arn
    oidc_issuer             = trimprefix(coalesce(var.oidc_issuer, "none"), "https://")
    partition               = local.partition
    queue_kms_key_arn       = coalesce(var.queue_kms_key_arn, "none")
    queue_name              = local.names.queue
    region                  = local.region
    rule_prefix             = local.names.rule
    service_account         = var.service_account
  }
}
