# The controller's policies, and the role that has them.

locals {
  controller_trust = var.identity == "irsa" ? "irsa-trust" : {
    "cluster-arn"  = "pod-identity-trust"
    "session-tags" = "pod-identity-session-trust"
  }[var.pod_identity_trust]

  # What trusts the role: a document of ours, and the caller's statements.
  controller_trust_document = jsondecode(templatefile("${path.module}/generated/${local.controller_trust}.json.tftpl", local.values))

  # Nothing is granted on a queue that is neither made here nor named.
  has_queue = var.create_queue ? true : var.queue_name != null

  # Statements that only some clusters need; they go into the last policy.
  optional_statements = concat(
    var.zonal_shift ? [jsondecode(templatefile("${path.module}/generated/statement-zonal-shift.json.tftpl", local.values))] : [],
    var.queue_kms_key_arn != null ? [jsondecode(templatefile("${path.module}/generated/statement-queue-key.json.tftpl", local.values))] : [],
    [for statement in var.extra_controller_statements : jsondecode(statement)],
  )

  controller_documents = {
    for index, policy in local.facts.controller_policies : policy.prefix => {
      base     = jsondecode(templatefile("${path.module}/generated/${policy.template}", local.values))
      optional = [for statement in local.optional_statements : statement if index == length(local.facts.controller_policies) - 1]
    }
  }

  controller_policies = {
    for prefix, document in local.controller_documents : prefix => jsonencode({
      Version = document.base.Version
      Statement = concat(
        [for statement in document.base.Statement : statement if local.has_queue || statement.Sid != "AllowInterruptionQueueActions"],
        document.optional,
      )
    })
  }
}

resource "aws_iam_policy" "controller" {
  for_each = local.make_controller_policies ? local.controller_policies : {}

  name        = "${each.key}${local.names.policy_suffix}"
  path        = var.iam_path
  description = coalesce(var.controller_policy_description, local.facts.descriptions.policy)
  policy      = each.value
  tags        = local.tags

  lifecycle {
    precondition {
      condition     = length(each.value) <= 6144
      error_message = "IAM allows 6144 characters in a policy: name fewer extra roles, parameters and statements, or use a policy of your own: extra_controller_policy_arns."
    }
  }
}

resource "aws_iam_role" "controller" {
  count = local.make_controller_role ? 1 : 0

  name                 = local.names.controller_role
  path                 = var.iam_path
  description          = coalesce(var.controller_role_description, local.facts.descriptions.controller_role)
  max_session_duration = var.controller_role_max_session_duration
  permissions_boundary = var.permissions_boundary_arn
  tags                 = merge(local.tags, var.controller_role_tags)

  assume_role_policy = jsonencode({
    Version   = local.controller_trust_document.Version
    Statement = concat(local.controller_trust_document.Statement, [for statement in var.extra_controller_trust_statements : jsondecode(statement)])
  })

  lifecycle {
    precondition {
      condition     = var.identity != "irsa" || var.oidc_issuer != null
      error_message = "identity = \"irsa\" needs oidc_issuer."
    }
  }
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = { for prefix, policy in aws_iam_policy.controller : prefix => policy if local.make_controller_role }

  role       = aws_iam_role.controller[0].name
  policy_arn = each.value.arn
}

resource "aws_iam_role_policy_attachment" "controller_extra" {
  for_each = local.make_controller_role ? var.extra_controller_policy_arns : {}

  role       = aws_iam_role.controller[0].name
  policy_arn = each.value
}

resource "aws_eks_pod_identity_association" "controller" {
  count = local.make_controller_role && var.identity == "pod-identity" && var.create_pod_identity_association ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller[0].arn
  tags            = local.tags
}
