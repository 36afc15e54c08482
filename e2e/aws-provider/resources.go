package main

import (
	"net/url"
	"strconv"
	"strings"
)

// resources are the types that the module makes, and a network: of types of the examples alone there is the schema only.
var resources = map[string]resource{
	"aws_iam_role": {
		replaces: []string{"name", "path"},
		defaults: values{"path": "/", "max_session_duration": 3600.0, "force_detach_policies": false},
		create: func(c *client, want values) error {
			want["id"] = want["name"]
			_, err := c.query("iam", "CreateRole", append(numbered("Tags.member", want.child("tags")),
				"RoleName", want.text("name"), "Path", want.text("path"), "Description", want.text("description"),
				"AssumeRolePolicyDocument", want.text("assume_role_policy"),
				"MaxSessionDuration", want.text("max_session_duration"), "PermissionsBoundary", want.text("permissions_boundary"))...)
			return err
		},
		read: func(c *client, is values) (values, error) {
			answer, err := c.query("iam", "GetRole", "RoleName", is.text("id"))
			role := answer.child("Role")
			trust, _ := url.QueryUnescape(role.text("AssumeRolePolicyDocument"))
			longest, _ := strconv.ParseFloat(role.text("MaxSessionDuration"), 64)
			return values{
				"arn": role["Arn"], "name": role["RoleName"], "path": role["Path"], "unique_id": role["RoleId"],
				"create_date": role["CreateDate"], "description": orNull(role.text("Description")), "assume_role_policy": trust,
				"max_session_duration": longest, "tags": tagsFrom(role["Tags"]),
				"permissions_boundary": orNull(role.child("PermissionsBoundary").text("PermissionsBoundaryArn")),
			}, err
		},
		update: func(c *client, _, want values) error {
			_, err := c.query("iam", "UpdateRole", "RoleName", want.text("id"), "Description", want.text("description"),
				"MaxSessionDuration", want.text("max_session_duration"))
			if err == nil {
				_, err = c.query("iam", "UpdateAssumeRolePolicy", "RoleName", want.text("id"), "PolicyDocument", want.text("assume_role_policy"))
			}
			return err
		},
		destroy: deletes("iam", "DeleteRole", "RoleName", "id"),
	},
	"aws_iam_role_policy_attachment": {
		replaces: []string{"role", "policy_arn"},
		create: func(c *client, want values) error {
			want["id"] = want.text("role") + "/" + want.text("policy_arn")
			_, err := c.query("iam", "AttachRolePolicy", "RoleName", want.text("role"), "PolicyArn", want.text("policy_arn"))
			return err
		},
		read: func(c *client, is values) (values, error) {
			answer, err := c.query("iam", "ListAttachedRolePolicies", "RoleName", is.text("role"))
			return oneOf(answer["AttachedPolicies"], "PolicyArn", is.text("policy_arn")), err
		},
		destroy: deletes("iam", "DetachRolePolicy", "RoleName", "role", "PolicyArn", "policy_arn"),
	},
	"aws_iam_policy": {
		replaces: []string{"name", "path", "description"},
		defaults: values{"path": "/"},
		create: func(c *client, want values) error {
			answer, err := c.query("iam", "CreatePolicy", append(numbered("Tags.member", want.child("tags")),
				"PolicyName", want.text("name"), "Path", want.text("path"), "Description", want.text("description"),
				"PolicyDocument", want.text("policy"))...)
			want["id"] = answer.child("Policy")["Arn"]
			return err
		},
		read: func(c *client, is values) (values, error) {
			answer, err := c.query("iam", "GetPolicy", "PolicyArn", is.text("id"))
			if err != nil {
				return nil, err
			}
			policy := answer.child("Policy")
			answer, err = c.query("iam", "GetPolicyVersion", "PolicyArn", is.text("id"), "VersionId", policy.text("DefaultVersionId"))
			document, _ := url.QueryUnescape(answer.child("PolicyVersion").text("Document"))
			return values{
				"arn": policy["Arn"], "name": policy["PolicyName"], "path": policy["Path"], "policy_id": policy["PolicyId"],
				"description": orNull(policy.text("Description")), "policy": document, "tags": tagsFrom(policy["Tags"]),
			}, err
		},
		update: func(c *client, _, want values) error {
			if err := deleteVersions(c, want); err != nil {
				return err
			}
			_, err := c.query("iam", "CreatePolicyVersion", "PolicyArn", want.text("id"), "PolicyDocument", want.text("policy"), "SetAsDefault", "true")
			return err
		},
		destroy: func(c *client, is values) error {
			if err := deleteVersions(c, is); err != nil {
				return err
			}
			return deletes("iam", "DeletePolicy", "PolicyArn", "id")(c, is)
		},
	},
	"aws_iam_instance_profile": {
		replaces: []string{"name", "path"},
		defaults: values{"path": "/"},
		create: func(c *client, want values) error {
			want["id"] = want["name"]
			_, err := c.query("iam", "CreateInstanceProfile", append(numbered("Tags.member", want.child("tags")),
				"InstanceProfileName", want.text("name"), "Path", want.text("path"))...)
			if err == nil {
				_, err = c.query("iam", "AddRoleToInstanceProfile", "InstanceProfileName", want.text("name"), "RoleName", want.text("role"))
			}
			return err
		},
		read: func(c *client, is values) (values, error) {
			answer, err := c.query("iam", "GetInstanceProfile", "InstanceProfileName", is.text("id"))
			profile := answer.child("InstanceProfile")
			return values{
				"arn": profile["Arn"], "name": profile["InstanceProfileName"], "path": profile["Path"],
				"unique_id": profile["InstanceProfileId"], "create_date": profile["CreateDate"],
				"role": orNull(profile.child("Roles").text("RoleName")), "tags": tagsFrom(profile["Tags"]),
			}, err
		},
		destroy: func(c *client, is values) error {
			err := deletes("iam", "RemoveRoleFromInstanceProfile", "InstanceProfileName", "id", "RoleName", "role")(c, is)
			if err != nil {
				return err
			}
			return deletes("iam", "DeleteInstanceProfile", "InstanceProfileName", "id")(c, is)
		},
	},
	"aws_iam_service_linked_role": {
		replaces: []string{"aws_service_name", "custom_suffix"},
		create: func(c *client, want values) error {
			answer, err := c.query("iam", "CreateServiceLinkedRole", "AWSServiceName", want.text("aws_service_name"))
			want["id"], want["name"] = answer.child("Role")["Arn"], answer.child("Role")["RoleName"]
			return err
		},
		read: func(c *client, is values) (values, error) {
			answer, err := c.query("iam", "GetRole", "RoleName", is.text("name"))
			role := answer.child("Role")
			return values{
				"arn": role["Arn"], "path": role["Path"], "unique_id": role["RoleId"], "create_date": role["CreateDate"],
				"description": orNull(role.text("Description")), "tags": tagsFrom(role["Tags"]),
			}, err
		},
		destroy: deletes("iam", "DeleteServiceLinkedRole", "RoleName", "name"),
	},
	"aws_ec2_tag": discoveryTag, "aws_subnet": subnet, "aws_vpc": network,
	"aws_eks_access_entry": {
		replaces: []string{"cluster_name", "principal_arn", "type"},
		defaults: values{"type": "STANDARD"},
		create: func(c *client, want values) error {
			want["id"] = want.text("cluster_name") + ":" + want.text("principal_arn")
			_, err := c.eks("POST", "/clusters/"+want.text("cluster_name")+"/access-entries", values{
				"principalArn": want["principal_arn"], "type": want["type"], "tags": want.child("tags"),
			})
			return err
		},
		read: func(c *client, is values) (values, error) {
			answer, err := c.eks("GET", accessEntry(is), nil)
			entry := answer.child("accessEntry")
			return values{
				"access_entry_arn": entry["accessEntryArn"], "type": entry["type"], "user_name": entry["username"],
				"kubernetes_groups": entry["kubernetesGroups"], "created_at": entry.text("createdAt"),
				"modified_at": entry.text("modifiedAt"), "tags": entry.child("tags"),
			}, err
		},
		destroy: func(c *client, is values) error {
			_, err := c.eks("DELETE", accessEntry(is), nil)
			return err
		},
	},
	"aws_eks_pod_identity_association": {
		replaces: []string{"cluster_name", "namespace", "service_account"},
		create: func(c *client, want values) error {
			answer, err := c.eks("POST", associations(want), values{
				"namespace": want["namespace"], "serviceAccount": want["service_account"], "roleArn": want["role_arn"],
				"tags": want.child("tags"),
			})
			want["id"] = answer.child("association")["associationId"]
			return err
		},
		read: func(c *client, is values) (values, error) {
			answer, err := c.eks("GET", associations(is)+"/"+is.text("id"), nil)
			found := answer.child("association")
			return values{
				"association_id": found["associationId"], "association_arn": found["associationArn"], "role_arn": found["roleArn"],
				"namespace": found["namespace"], "service_account": found["serviceAccount"], "tags": found.child("tags"),
			}, err
		},
		update: func(c *client, _, want values) error {
			_, err := c.eks("POST", associations(want)+"/"+want.text("id"), values{"roleArn": want["role_arn"]})
			return err
		},
		destroy: func(c *client, is values) error {
			_, err := c.eks("DELETE", associations(is)+"/"+is.text("id"), nil)
			return err
		},
	},
	"aws_sqs_queue": {
		replaces: []string{"name", "fifo_queue"},
		defaults: values{
			"content_based_deduplication": false, "delay_seconds": 0.0, "fifo_queue": false, "max_message_size": 262144.0,
			"message_retention_seconds": 345600.0, "receive_wait_time_seconds": 0.0, "visibility_timeout_seconds": 30.0,
		},
		create: func(c *client, want values) error {
			answer, err := c.sqs("CreateQueue", values{"QueueName": want["name"], "Attributes": queueAttributes(want), "tags": want.child("tags")})
			want["id"], want["url"] = answer["QueueUrl"], answer["QueueUrl"]
			return err
		},
		read: func(c *client, is values) (values, error) {
			answer, err := c.sqs("GetQueueAttributes", values{"QueueUrl": is["id"], "AttributeNames": []any{"All"}})
			if err != nil {
				return nil, err
			}
			attributes := answer.child("Attributes")
			arn := attributes.text("QueueArn")
			found := values{"arn": arn, "name": arn[strings.LastIndex(arn, ":")+1:], "policy": attributes.text("Policy")}
			for name, key := range numbersOfQueues {
				if number, err := strconv.ParseFloat(attributes.text(key), 64); err == nil {
					found[name] = number
				}
			}
			found["sqs_managed_sse_enabled"] = attributes.text("SqsManagedSseEnabled") == "true"
			found["kms_master_key_id"] = orNull(attributes.text("KmsMasterKeyId"))
			answer, err = c.sqs("ListQueueTags", values{"QueueUrl": is["id"]})
			found["tags"] = answer.child("Tags")
			return found, err
		},
		update: func(c *client, _, want values) error {
			_, err := c.sqs("SetQueueAttributes", values{"QueueUrl": want["id"], "Attributes": queueAttributes(want)})
			return err
		},
		destroy: func(c *client, is values) error {
			_, err := c.sqs("DeleteQueue", values{"QueueUrl": is["id"]})
			return err
		},
	},
	"aws_sqs_queue_policy": {
		replaces: []string{"queue_url"},
		create: func(c *client, want values) error {
			want["id"] = want["queue_url"]
			return putQueuePolicy(c, want)
		},
		read: func(c *client, is values) (values, error) {
			answer, err := c.sqs("GetQueueAttributes", values{"QueueUrl": is["id"], "AttributeNames": []any{"Policy"}})
			policy := answer.child("Attributes").text("Policy")
			if policy == "" {
				return nil, err
			}
			return values{"policy": policy}, err
		},
		update: func(c *client, _, want values) error { return putQueuePolicy(c, want) },
		destroy: func(c *client, is values) error {
			_, err := c.sqs("SetQueueAttributes", values{"QueueUrl": is["id"], "Attributes": values{"Policy": ""}})
			return err
		},
	},
	"aws_cloudwatch_event_rule": {
		replaces: []string{"name", "event_bus_name"},
		defaults: values{"event_bus_name": "default"},
		create: func(c *client, want values) error {
			want["id"] = want["name"]
			return putRule(c, want)
		},
		read: func(c *client, is values) (values, error) {
			rule, err := c.events("DescribeRule", values{"Name": is["id"]})
			if err != nil {
				return nil, err
			}
			tags, err := c.events("ListTagsForResource", values{"ResourceARN": rule["Arn"]})
			return values{
				"arn": rule["Arn"], "name": rule["Name"], "description": orNull(rule.text("Description")),
				"event_pattern": rule.text("EventPattern"), "tags": tagsFrom(tags["Tags"]),
			}, err
		},
		update: func(c *client, _, want values) error { return putRule(c, want) },
		destroy: func(c *client, is values) error {
			_, err := c.events("DeleteRule", values{"Name": is["id"]})
			return err
		},
	},
	"aws_cloudwatch_event_target": {
		replaces: []string{"rule", "target_id", "event_bus_name"},
		defaults: values{"event_bus_name": "default"},
		create: func(c *client, want values) error {
			want["id"] = want.text("rule") + "-" + want.text("target_id")
			return putTarget(c, want)
		},
		read: func(c *client, is values) (values, error) {
			answer, err := c.events("ListTargetsByRule", values{"Rule": is["rule"]})
			found := oneOf(answer["Targets"], "Id", is.text("target_id"))
			if found == nil {
				return nil, err
			}
			return values{"arn": found["Arn"]}, err
		},
		update: func(c *client, _, want values) error { return putTarget(c, want) },
		destroy: func(c *client, is values) error {
			_, err := c.events("RemoveTargets", values{"Rule": is["rule"], "Ids": []any{is["target_id"]}})
			return err
		},
	},
}

// deletes makes one call, with parameters that are attributes.
func deletes(service, action string, parameters ...string) func(*client, values) error {
	return func(c *client, is values) error {
		filled := append([]string{}, parameters...)
		for index := 1; index < len(filled); index += 2 {
			filled[index] = is.text(parameters[index])
		}
		_, err := c.query(service, action, filled...)
		return err
	}
}

// oneOf is the item of a list whose field has this value; nil without one.
func oneOf(list any, field, value string) values {
	items, _ := list.([]any)
	for _, item := range items {
		if item, _ := item.(values); item.text(field) == value {
			return item
		}
	}
	return nil
}

// deleteVersions leaves a policy its default version: IAM keeps five, and deletes no policy that has others.
func deleteVersions(c *client, is values) error {
	answer, err := c.query("iam", "ListPolicyVersions", "PolicyArn", is.text("id"))
	versions, _ := answer["Versions"].([]any)
	for _, version := range versions {
		version, _ := version.(values)
		if err == nil && version.text("IsDefaultVersion") != "true" {
			_, err = c.query("iam", "DeletePolicyVersion", "PolicyArn", is.text("id"), "VersionId", version.text("VersionId"))
		}
	}
	return err
}

func accessEntry(is values) string {
	return "/clusters/" + is.text("cluster_name") + "/access-entries/" + url.PathEscape(is.text("principal_arn"))
}

func associations(is values) string {
	return "/clusters/" + is.text("cluster_name") + "/pod-identity-associations"
}

func (c *client) sqs(action string, input values) (values, error) {
	return c.rpc("sqs", "AmazonSQS."+action, input)
}

func (c *client) events(action string, input values) (values, error) {
	return c.rpc("events", "AWSEvents."+action, input)
}

var numbersOfQueues = map[string]string{
	"delay_seconds": "DelaySeconds", "kms_data_key_reuse_period_seconds": "KmsDataKeyReusePeriodSeconds",
	"max_message_size": "MaximumMessageSize", "message_retention_seconds": "MessageRetentionPeriod",
	"receive_wait_time_seconds": "ReceiveMessageWaitTimeSeconds", "visibility_timeout_seconds": "VisibilityTimeout",
}

func queueAttributes(want values) values {
	made := values{}
	names := values{"kms_master_key_id": "KmsMasterKeyId", "sqs_managed_sse_enabled": "SqsManagedSseEnabled"}
	for name, key := range numbersOfQueues {
		names[name] = key
	}
	for name := range names {
		if text := want.text(name); text != "" {
			made[names.text(name)] = text
		}
	}
	return made
}

func putQueuePolicy(c *client, want values) error {
	_, err := c.sqs("SetQueueAttributes", values{"QueueUrl": want["id"], "Attributes": values{"Policy": want["policy"]}})
	return err
}

func listed(tags values) []any {
	made := []any{}
	for key, value := range tags {
		made = append(made, values{"Key": key, "Value": value})
	}
	return made
}

func putRule(c *client, want values) error {
	_, err := c.events("PutRule", values{
		"Name": want["name"], "Description": want.text("description"), "EventPattern": want["event_pattern"],
		"Tags": listed(want.child("tags")),
	})
	return err
}

func putTarget(c *client, want values) error {
	_, err := c.events("PutTargets", values{"Rule": want["rule"], "Targets": []any{values{"Id": want["target_id"], "Arn": want["arn"]}}})
	return err
}
