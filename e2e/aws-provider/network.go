package main

import "strconv"

var discoveryTag = resource{
	replaces: []string{"resource_id", "key"},
	create:   putTag,
	read: func(c *client, is values) (values, error) {
		answer, err := c.query("ec2", "DescribeTags", "Filter.1.Name", "resource-id", "Filter.1.Value.1", is.text("resource_id"),
			"Filter.2.Name", "key", "Filter.2.Value.1", is.text("key"))
		found := oneOf(answer["tagSet"], "key", is.text("key"))
		if found == nil {
			return nil, err
		}
		return values{"value": found["value"]}, err
	},
	update:  func(c *client, _, want values) error { return putTag(c, want) },
	destroy: deletes("ec2", "DeleteTags", "ResourceId.1", "resource_id", "Tag.1.Key", "key"),
}

var network = resource{
	replaces: []string{"cidr_block"},
	defaults: values{"enable_dns_support": true, "instance_tenancy": "default"},
	create: func(c *client, want values) error {
		answer, err := c.query("ec2", "CreateVpc", append(specified("vpc", want), "CidrBlock", want.text("cidr_block"))...)
		want["id"] = answer.child("vpc")["vpcId"]
		if err == nil && want["enable_dns_hostnames"] == true {
			_, err = c.query("ec2", "ModifyVpcAttribute", "VpcId", want.text("id"), "EnableDnsHostnames.Value", "true")
		}
		return err
	},
	read: func(c *client, is values) (values, error) {
		answer, err := c.query("ec2", "DescribeVpcs", "VpcId.1", is.text("id"))
		found := answer.child("vpcSet")
		return values{"cidr_block": found["cidrBlock"], "tags": tagsFrom(found["tagSet"])}, err
	},
	destroy: deletes("ec2", "DeleteVpc", "VpcId", "id"),
}

var subnet = resource{
	replaces: []string{"vpc_id", "cidr_block", "availability_zone"},
	create: func(c *client, want values) error {
		answer, err := c.query("ec2", "CreateSubnet", append(specified("subnet", want), "VpcId", want.text("vpc_id"),
			"CidrBlock", want.text("cidr_block"), "AvailabilityZone", want.text("availability_zone"))...)
		want["id"] = answer.child("subnet")["subnetId"]
		return err
	},
	read: func(c *client, is values) (values, error) {
		answer, err := c.query("ec2", "DescribeSubnets", "SubnetId.1", is.text("id"))
		found := answer.child("subnetSet")
		return values{
			"arn": found["subnetArn"], "vpc_id": found["vpcId"], "cidr_block": found["cidrBlock"],
			"availability_zone": found["availabilityZone"], "tags": tagsFrom(found["tagSet"]),
		}, err
	},
	retags: true,
	// Tags that the configuration does not name go, whoever put them there.
	update: func(c *client, is, want values) error {
		removed := []string{"ResourceId.1", is.text("id")}
		for key := range is.child("tags") {
			if _, stays := want.child("tags")[key]; !stays {
				removed = append(removed, "Tag."+strconv.Itoa(len(removed)/2)+".Key", key)
			}
		}
		var err error
		// Without a tag the call would delete all.
		if len(removed) > 2 {
			_, err = c.query("ec2", "DeleteTags", removed...)
		}
		if added := numbered("Tag", want.child("tags")); err == nil && len(added) > 0 {
			_, err = c.query("ec2", "CreateTags", append(added, "ResourceId.1", is.text("id"))...)
		}
		return err
	},
	destroy: deletes("ec2", "DeleteSubnet", "SubnetId", "id"),
}

func putTag(c *client, want values) error {
	want["id"] = want.text("resource_id") + "," + want.text("key")
	_, err := c.query("ec2", "CreateTags", "ResourceId.1", want.text("resource_id"), "Tag.1.Key", want.text("key"), "Tag.1.Value", want.text("value"))
	return err
}

// specified are the tags of a thing that is made.
func specified(kind string, want values) []string {
	const at = "TagSpecification.1."
	return append(numbered(at+"Tag", want.child("tags")), at+"ResourceType", kind)
}
