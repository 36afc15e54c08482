package main

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
)

// resource is how one type behaves, as the documentation of the released provider has it: the schema does not say which
// attributes need a new thing when they change, nor what an attribute is that is left out.
type resource struct {
	replaces []string
	defaults values
	// create sets what names the thing: at least `id`.
	create func(*client, values) error
	// read returns what the account says; nothing where the thing is gone.
	read func(*client, values) (values, error)
	// update changes what exists, but for its tags unless retags is set.
	update  func(c *client, is, want values) error
	retags  bool
	destroy func(*client, values) error
}

func resourceOf(name string) (resource, error) {
	found, isPlayed := resources[name]
	if !isPlayed {
		return found, fmt.Errorf("this stand-in has the schema of `%s` only", name)
	}
	return found, nil
}

// plan completes what Terraform proposes from configuration and state, and returns the attributes that need a new thing.
func (r resource) plan(schema *tfprotov5.SchemaBlock, prior, proposed values) []string {
	for name, value := range r.defaults {
		if proposed[name] == nil {
			proposed[name] = value
		}
	}
	if prior == nil {
		expect(schema, proposed)
	}
	switch tags := proposed["tags"].(type) {
	case values:
		proposed["tags_all"] = tags
		for _, value := range tags {
			if value == (unknown{}) {
				proposed["tags_all"] = unknown{}
			}
		}
	case unknown:
		proposed["tags_all"] = unknown{}
	default:
		proposed["tags_all"] = values{}
	}
	var replaced []string
	for _, name := range r.replaces {
		if prior != nil && !equal(prior[name], proposed[name]) {
			replaced = append(replaced, name)
		}
	}
	return replaced
}

// expect makes unknown what AWS will say of a new thing.
func expect(schema *tfprotov5.SchemaBlock, proposed values) {
	for _, attribute := range schema.Attributes {
		if attribute.Computed && proposed[attribute.Name] == nil {
			proposed[attribute.Name] = unknown{}
		}
	}
	for _, inner := range schema.BlockTypes {
		items, isList := proposed[inner.TypeName].([]any)
		if !isList {
			items = []any{proposed[inner.TypeName]}
		}
		for _, item := range items {
			if item, isThere := item.(values); isThere {
				expect(inner.Block, item)
			}
		}
	}
}

// apply makes the account as planned. Created things are told their `id` in `planned`.
func (r resource) apply(c *client, prior, planned values) error {
	switch {
	case planned == nil:
		if err := r.destroy(c, prior); !isGone(err) {
			return err
		}
		return nil
	case prior == nil:
		return r.create(c, planned)
	}
	for name, value := range planned {
		if value == (unknown{}) || equal(prior[name], value) {
			continue
		}
		if r.update == nil || (name == "tags" && !r.retags) {
			return fmt.Errorf("this stand-in does not change `%s` of what exists", name)
		}
		return r.update(c, prior, planned)
	}
	return nil
}

// numbered are tags as parameters of a query: `<prefix>.1.Key`, `<prefix>.1.Value`, and so on.
func numbered(prefix string, tags values) []string {
	var made []string
	for key := range tags {
		at := fmt.Sprintf("%s.%d.", prefix, len(made)/4+1)
		made = append(made, at+"Key", key, at+"Value", tags.text(key))
	}
	return made
}

// tagsFrom reads tags that AWS lists as objects; JSON, IAM and EC2 spell the two names differently.
func tagsFrom(list any) values {
	made := values{}
	items, _ := list.([]any)
	for _, item := range items {
		item, _ := item.(values)
		made[either(item.text("Key"), item.text("key"))] = either(item.text("Value"), item.text("value"))
	}
	return made
}

// orNull is nil for what AWS leaves empty.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
