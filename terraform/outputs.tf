output "cluster_name" {
  description = "Name of the EKS cluster."
  value       = var.cluster_name
}

output "region" {
  description = "Region of the cluster."
  value       = local.region
}

output "identity" {
  description = "How the controller gets its credentials."
  value       = var.identity
}

output "pod_identity_trust" {
  description = "What ties the controller role to this cluster with EKS Pod Identity."
  value       = var.pod_identity_trust
}

output "access_entry" {
  description = "Whether EKS access entries were made for the nodes."
  value       = var.access_entry
}

output "namespace" {
  description = "Namespace of the controller's service account."
  value       = var.namespace
}

output "service_account" {
  description = "Name of the controller's service account."
  value       = var.service_account
}

output "iam_path" {
  description = "IAM path of roles, policies and instance profile."
  value       = var.iam_path
}

output "controller_role_name" {
  description = "Name of the controller role; null without one."
  value       = one(aws_iam_role.controller[*].name)
}

output "controller_role_arn" {
  description = "ARN of the controller role; null without one."
  value       = one(aws_iam_role.controller[*].arn)
}

output "controller_role_unique_id" {
  description = "IAM's own id of the controller role; null without one."
  value       = one(aws_iam_role.controller[*].unique_id)
}

output "controller_policy_arns" {
  description = "ARNs of the controller's policies."
  value       = sort([for policy in aws_iam_policy.controller : policy.arn])
}

output "policy_suffix" {
  description = "What the names of the controller's policies end with."
  value       = local.names.policy_suffix
}

output "controller_policy_documents" {
  description = "The controller's policies as JSON, by the beginning of their names, whether they are made or not."
  value       = local.controller_policies
}

output "node_role_name" {
  description = "Name of the node role: EC2NodeClass `spec.role`."
  value       = local.names.node_role
}

output "node_role_arn" {
  description = "ARN of the node role."
  value       = local.make_node_role ? aws_iam_role.node["linux"].arn : var.node_role_arn
}

output "node_policy_arns" {
  description = "ARNs of the policies that are attached to the roles of nodes made here."
  value       = sort(distinct([for attachment in concat(values(aws_iam_role_policy_attachment.node), values(aws_iam_role_policy_attachment.node_extra)) : attachment.policy_arn]))
}

output "node_role_unique_id" {
  description = "IAM's own id of the node role; null unless it is made here."
  value       = local.make_node_role ? aws_iam_role.node["linux"].unique_id : null
}

output "node_access_entry_arn" {
  description = "ARN of the access entry of the node role; null without one."
  value       = local.make_access_entries ? aws_eks_access_entry.node["nodes"].access_entry_arn : null
}

output "windows_node_role_name" {
  description = "Name of the node role for Windows; null without one."
  value       = local.make_windows_role ? aws_iam_role.node["windows"].name : null
}

output "instance_profile_name" {
  description = "Name of the instance profile: EC2NodeClass `spec.instanceProfile` of clusters without an IAM endpoint; null without one."
  value       = one(aws_iam_instance_profile.node[*].name)
}

output "instance_profile_arn" {
  description = "ARN of the instance profile; null without one."
  value       = one(aws_iam_instance_profile.node[*].arn)
}

output "instance_profile_id" {
  description = "Terraform's id of the instance profile; null without one."
  value       = one(aws_iam_instance_profile.node[*].id)
}

output "instance_profile_unique_id" {
  description = "IAM's own id of the instance profile; null without one."
  value       = one(aws_iam_instance_profile.node[*].unique_id)
}

output "queue_name" {
  description = "Name of the interruption queue: chart value `settings.interruptionQueue`; null without one."
  value       = local.make_queue ? aws_sqs_queue.interruption[0].name : var.queue_name
}

output "queue_arn" {
  description = "ARN of the interruption queue; null unless it is made here."
  value       = one(aws_sqs_queue.interruption[*].arn)
}

output "queue_url" {
  description = "URL of the interruption queue; null unless it is made here."
  value       = one(aws_sqs_queue.interruption[*].url)
}

output "event_rules" {
  description = "Name and ARN of each EventBridge rule, by what it announces."
  value       = { for name, rule in aws_cloudwatch_event_rule.interruption : name => { name = rule.name, arn = rule.arn } }
}

output "chart_values" {
  description = "Values of the Helm chart that follow from this module."
  value = {
    serviceAccount = merge(
      { name = var.service_account },
      var.identity == "irsa" ? { annotations = { "eks.amazonaws.com/role-arn" = one(aws_iam_role.controller[*].arn) } } : {},
    )
    settings = {
      clusterName       = var.cluster_name
      interruptionQueue = local.has_queue ? local.names.queue : ""
      enableZonalShift  = var.zonal_shift
    }
  }
}
