package main

import "strings"

// lookups are the data sources that the module reads, and the zones of a network.
var lookups = map[string]func(*client, values) (values, error){
	"aws_caller_identity": func(c *client, _ values) (values, error) {
		caller, err := c.query("sts", "GetCallerIdentity")
		return values{"id": caller["Account"], "account_id": caller["Account"], "arn": caller["Arn"], "user_id": caller["UserId"]}, err
	},
	"aws_availability_zones": func(c *client, _ values) (values, error) {
		answer, err := c.query("ec2", "DescribeAvailabilityZones")
		zones, _ := answer["availabilityZoneInfo"].([]any)
		names := []any{}
		for _, zone := range zones {
			names = append(names, zone.(values)["zoneName"])
		}
		return values{"id": c.region, "names": names}, err
	},
	"aws_partition": func(c *client, _ values) (values, error) {
		found := values{"id": "aws", "partition": "aws", "dns_suffix": "amazonaws.com", "reverse_dns_prefix": "com.amazonaws"}
		for prefix, partition := range map[string]string{"cn-": "aws-cn", "us-gov-": "aws-us-gov", "eusc-": "aws-eusc"} {
			if strings.HasPrefix(c.region, prefix) {
				found["id"], found["partition"] = partition, partition
			}
		}
		if found["id"] == "aws-cn" {
			found["dns_suffix"], found["reverse_dns_prefix"] = "amazonaws.com.cn", "cn.com.amazonaws"
		}
		return found, nil
	},
	"aws_region": func(c *client, _ values) (values, error) {
		return values{"id": c.region, "name": c.region, "region": c.region, "endpoint": "ec2." + c.region + ".amazonaws.com"}, nil
	},
}
