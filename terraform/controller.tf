# The controller's role and what it grants.

locals {
  controller_trust = var.identity == "irsa" ? "irsa-trust" : {
    "cluster-arn"  = "pod-identity-trust"
    "session-tags" = "pod-identity-session-trust"
  }[var.pod_identity_trust]

  # Statements that only some clusters need; they go into the last policy.
  optional_statements = concat(
    var.zonal_shift ? [jsondecode(templatefile("${path.module}/generated/statement-zonal-shift.json.tftpl", local.values))] : [],
    var.queue_kms_key_arn != null ? [jsondecode(templatefile("${path.module}/generated/statement-queue-key.json.tftpl", local.values))] : [],
  )

  controller_documents = {
    for index, policy in local.facts.controller_policies : policy.prefix => {
      base     = jsondecode(templatefile("${path.module}/generated/${policy.template}", local.values))
      optional = [for statement in local.optional_statements : statement if index == length(local.facts.controller_policies) - 1]
    }
  }

  controller_policies = {
    for prefix, document in local.controller_documents : prefix => jsonencode({
      Version   = document.base.Version
      Statement = concat(document.base.Statement, document.optional)
    })
  }
}

resource "aws_iam_policy" "controller" {
  for_each = local.make_controller_role ? local.controller_policies : {}

  name        = "${each.key}${var.cluster_name}"
  path        = var.iam_path
  description = local.facts.descriptions.policy
  policy      = each.value
  tags        = local.tags

  lifecycle {
    precondition {
      condition     = length(each.value) <= 6144
      error_message = "IAM allows 6144 characters in a policy: name fewer extra roles and parameters, or use wildcards in a policy of your own."
    }
  }
}

resource "aws_iam_role" "controller" {
  count = local.make_controller_role ? 1 : 0

  name                 = local.names.controller_role
  path                 = var.iam_path
  description          = local.facts.descriptions.controller_role
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = templatefile("${path.module}/generated/${local.controller_trust}.json.tftpl", local.values)
  tags                 = local.tags

  lifecycle {
    precondition {
      condition     = var.identity != "irsa" || var.oidc_issuer != null
      error_message = "identity = \"irsa\" needs oidc_issuer."
    }
  }
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = aws_iam_policy.controller

  role       = aws_iam_role.controller[0].name
  policy_arn = each.value.arn
}

resource "aws_eks_pod_identity_association" "controller" {
  count = var.identity == "pod-identity" ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller[0].arn
  tags            = local.tags
}
