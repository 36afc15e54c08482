package main

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// schema is what `terraform providers schema -json` prints of a provider.
type schema struct {
	Provider    object            `json:"provider"`
	Resources   map[string]object `json:"resource_schemas"`
	DataSources map[string]object `json:"data_source_schemas"`
}

type object struct {
	Block block `json:"block"`
}

type block struct {
	Attributes map[string]attribute `json:"attributes"`
	Blocks     map[string]nested    `json:"block_types"`
}

type attribute struct {
	Type     json.RawMessage `json:"type"`
	Required bool            `json:"required"`
	Optional bool            `json:"optional"`
	Computed bool            `json:"computed"`
}

type nested struct {
	Nesting string `json:"nesting_mode"`
	Min     int64  `json:"min_items"`
	Max     int64  `json:"max_items"`
	Block   block  `json:"block"`
}

func readSchema(text []byte) (*tfprotov5.GetProviderSchemaResponse, error) {
	var read schema
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, err
	}
	var err error
	made := &tfprotov5.GetProviderSchemaResponse{}
	if made.Provider, err = read.Provider.schema(); err != nil {
		return nil, fmt.Errorf("the provider: %w", err)
	}
	if made.ResourceSchemas, err = schemasOf(read.Resources); err != nil {
		return nil, err
	}
	made.DataSourceSchemas, err = schemasOf(read.DataSources)
	return made, err
}

func schemasOf(objects map[string]object) (map[string]*tfprotov5.Schema, error) {
	made := map[string]*tfprotov5.Schema{}
	for name, object := range objects {
		schema, err := object.schema()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		made[name] = schema
	}
	return made, nil
}

func (o object) schema() (*tfprotov5.Schema, error) {
	made, err := o.Block.schema()
	return &tfprotov5.Schema{Block: made}, err
}

func (b block) schema() (*tfprotov5.SchemaBlock, error) {
	made := &tfprotov5.SchemaBlock{}
	for name, attribute := range b.Attributes {
		// Terraform prints types in this form and nothing else reads them from it.
		kind, err := tftypes.ParseJSONType(attribute.Type) //nolint:staticcheck
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		made.Attributes = append(made.Attributes, &tfprotov5.SchemaAttribute{
			Name: name, Type: kind,
			Required: attribute.Required, Optional: attribute.Optional, Computed: attribute.Computed,
		})
	}
	nestings := map[string]tfprotov5.SchemaNestedBlockNestingMode{
		"single": tfprotov5.SchemaNestedBlockNestingModeSingle,
		"list":   tfprotov5.SchemaNestedBlockNestingModeList,
		"set":    tfprotov5.SchemaNestedBlockNestingModeSet,
	}
	for name, inner := range b.Blocks {
		content, err := inner.Block.schema()
		if err != nil {
			return nil, fmt.Errorf("block %s: %w", name, err)
		}
		nesting, isKnown := nestings[inner.Nesting]
		if !isKnown {
			return nil, fmt.Errorf("block %s: nesting %q is not known", name, inner.Nesting)
		}
		made.BlockTypes = append(made.BlockTypes, &tfprotov5.SchemaNestedBlock{
			TypeName: name, Nesting: nesting, MinItems: inner.Min, MaxItems: inner.Max, Block: content,
		})
	}
	return made, nil
}
