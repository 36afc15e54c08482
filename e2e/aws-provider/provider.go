package main

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// provider answers Terraform. Calls of the protocol that it does not have are those of import and of what our modules do
// not use.
type provider struct {
	tfprotov5.ProviderServer
	schema *tfprotov5.GetProviderSchemaResponse
	client *client
}

func (p *provider) GetProviderSchema(context.Context, *tfprotov5.GetProviderSchemaRequest) (*tfprotov5.GetProviderSchemaResponse, error) {
	return p.schema, nil
}

func (p *provider) PrepareProviderConfig(_ context.Context, request *tfprotov5.PrepareProviderConfigRequest) (*tfprotov5.PrepareProviderConfigResponse, error) {
	return &tfprotov5.PrepareProviderConfigResponse{PreparedConfig: request.Config}, nil
}

func (p *provider) ConfigureProvider(_ context.Context, request *tfprotov5.ConfigureProviderRequest) (*tfprotov5.ConfigureProviderResponse, error) {
	config, err := unpack(request.Config, p.schema.Provider.ValueType())
	if err != nil {
		return nil, err
	}
	if config.child("default_tags") != nil {
		err = fmt.Errorf("`default_tags` is not played by this stand-in; give modules their `tags`")
	}
	p.client = &client{
		region: either(config.text("region"), os.Getenv("AWS_REGION")),
		key:    either(config.text("access_key"), os.Getenv("AWS_ACCESS_KEY_ID")),
		secret: either(config.text("secret_key"), os.Getenv("AWS_SECRET_ACCESS_KEY")),

		endpoints: config.child("endpoints"),
	}
	return &tfprotov5.ConfigureProviderResponse{Diagnostics: diagnosed("configure", err)}, nil
}

func either(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

func (p *provider) StopProvider(context.Context, *tfprotov5.StopProviderRequest) (*tfprotov5.StopProviderResponse, error) {
	return &tfprotov5.StopProviderResponse{}, nil
}

// Terraform itself has held the configuration against the schema by then.
func (p *provider) ValidateResourceTypeConfig(context.Context, *tfprotov5.ValidateResourceTypeConfigRequest) (*tfprotov5.ValidateResourceTypeConfigResponse, error) {
	return &tfprotov5.ValidateResourceTypeConfigResponse{}, nil
}

func (p *provider) ValidateDataSourceConfig(context.Context, *tfprotov5.ValidateDataSourceConfigRequest) (*tfprotov5.ValidateDataSourceConfigResponse, error) {
	return &tfprotov5.ValidateDataSourceConfigResponse{}, nil
}

func (p *provider) UpgradeResourceState(_ context.Context, request *tfprotov5.UpgradeResourceStateRequest) (*tfprotov5.UpgradeResourceStateResponse, error) {
	kind := p.schema.ResourceSchemas[request.TypeName].ValueType()
	ignored := tfprotov5.UnmarshalOpts{ValueFromJSONOpts: tftypes.ValueFromJSONOpts{IgnoreUndefinedAttributes: true}}
	value, err := request.RawState.UnmarshalWithOpts(kind, ignored)
	if err != nil {
		return nil, err
	}
	state, err := tfprotov5.NewDynamicValue(kind, value)
	return &tfprotov5.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

func (p *provider) ReadResource(_ context.Context, request *tfprotov5.ReadResourceRequest) (*tfprotov5.ReadResourceResponse, error) {
	kind := p.schema.ResourceSchemas[request.TypeName].ValueType()
	is, err := unpack(request.CurrentState, kind)
	if err != nil {
		return nil, err
	}
	is, err = p.refreshed(request.TypeName, is)
	if err != nil {
		return &tfprotov5.ReadResourceResponse{Diagnostics: diagnosed("read "+request.TypeName, err)}, nil
	}
	state, err := pack(is, kind)
	return &tfprotov5.ReadResourceResponse{NewState: state}, err
}

// refreshed is the state as the account has it; nil where the thing is gone.
func (p *provider) refreshed(name string, is values) (values, error) {
	resource, err := resourceOf(name)
	if err != nil {
		return nil, err
	}
	found, err := resource.read(p.client, is)
	if isGone(err) || (err == nil && found == nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	made := values{}
	for name, value := range is {
		if value != (unknown{}) {
			made[name] = value
		}
	}
	made["region"] = p.client.region
	for name, value := range found {
		if !equal(made[name], value) {
			made[name] = value
		}
	}
	if tags, isTagged := found["tags"].(values); isTagged {
		made["tags_all"] = tags
		if len(tags) == 0 && is["tags"] == nil {
			made["tags"] = nil
		}
	}
	return made, nil
}

func (p *provider) PlanResourceChange(_ context.Context, request *tfprotov5.PlanResourceChangeRequest) (*tfprotov5.PlanResourceChangeResponse, error) {
	schema := p.schema.ResourceSchemas[request.TypeName]
	kind := schema.ValueType()
	answer := &tfprotov5.PlanResourceChangeResponse{PlannedState: request.ProposedNewState, UnsafeToUseLegacyTypeSystem: true}
	prior, err := unpack(request.PriorState, kind)
	if err != nil {
		return nil, err
	}
	proposed, err := unpack(request.ProposedNewState, kind)
	if err != nil || proposed == nil {
		return answer, err
	}
	resource, err := resourceOf(request.TypeName)
	if err != nil {
		answer.Diagnostics = diagnosed("plan "+request.TypeName, err)
		return answer, nil
	}
	for _, name := range resource.plan(schema.Block, prior, proposed) {
		answer.RequiresReplace = append(answer.RequiresReplace, tftypes.NewAttributePath().WithAttributeName(name))
	}
	answer.PlannedState, err = pack(proposed, kind)
	return answer, err
}

func (p *provider) ApplyResourceChange(_ context.Context, request *tfprotov5.ApplyResourceChangeRequest) (*tfprotov5.ApplyResourceChangeResponse, error) {
	kind := p.schema.ResourceSchemas[request.TypeName].ValueType()
	prior, err := unpack(request.PriorState, kind)
	if err != nil {
		return nil, err
	}
	planned, err := unpack(request.PlannedState, kind)
	if err != nil {
		return nil, err
	}
	resource, err := resourceOf(request.TypeName)
	if err == nil {
		err = resource.apply(p.client, prior, planned)
	}
	if err == nil && planned != nil {
		planned, err = p.refreshed(request.TypeName, planned)
	}
	answer := &tfprotov5.ApplyResourceChangeResponse{UnsafeToUseLegacyTypeSystem: true, NewState: request.PriorState}
	if err != nil {
		answer.Diagnostics = diagnosed("apply "+request.TypeName, err)
		return answer, nil
	}
	answer.NewState, err = pack(planned, kind)
	return answer, err
}

func (p *provider) ReadDataSource(_ context.Context, request *tfprotov5.ReadDataSourceRequest) (*tfprotov5.ReadDataSourceResponse, error) {
	kind := p.schema.DataSourceSchemas[request.TypeName].ValueType()
	config, err := unpack(request.Config, kind)
	if err != nil {
		return nil, err
	}
	read, isPlayed := lookups[request.TypeName]
	if !isPlayed {
		err = fmt.Errorf("this stand-in has the schema of `%s` only", request.TypeName)
		return &tfprotov5.ReadDataSourceResponse{Diagnostics: diagnosed("read "+request.TypeName, err)}, nil
	}
	found, err := read(p.client, config)
	if err != nil {
		return &tfprotov5.ReadDataSourceResponse{Diagnostics: diagnosed("read "+request.TypeName, err)}, nil
	}
	for name, value := range found {
		config[name] = value
	}
	state, err := pack(config, kind)
	return &tfprotov5.ReadDataSourceResponse{State: state}, err
}

func diagnosed(attempt string, err error) []*tfprotov5.Diagnostic {
	if err == nil {
		return nil
	}
	return []*tfprotov5.Diagnostic{{Severity: tfprotov5.DiagnosticSeverityError, Summary: "cannot " + attempt, Detail: err.Error()}}
}
