package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// values holds attributes and blocks by name: string, float64, bool, values for objects and maps, []any for lists and sets,
// nil for null, unknown.
type values map[string]any

// unknown is what Terraform prints as `(known after apply)`.
type unknown struct{}

// text is an attribute as AWS takes it; empty for null and what is unknown.
func (v values) text(name string) string {
	switch value := v[name].(type) {
	case nil, unknown:
		return ""
	case float64:
		return fmt.Sprintf("%.0f", value)
	default:
		return fmt.Sprint(value)
	}
}

// child is an object, a map, or the only block of a kind; empty where there is none.
func (v values) child(name string) values {
	if items, isList := v[name].([]any); isList && len(items) > 0 {
		child, _ := items[0].(values)
		return child
	}
	child, _ := v[name].(values)
	return child
}

// unpack reads a message of Terraform's; nil for null.
func unpack(message *tfprotov5.DynamicValue, kind tftypes.Type) (values, error) {
	value, err := message.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	read, _ := decode(value).(values)
	return read, nil
}

// pack writes a message to Terraform; what the schema does not have is left out.
func pack(content values, kind tftypes.Type) (*tfprotov5.DynamicValue, error) {
	value := tftypes.NewValue(kind, nil)
	if content != nil {
		value = encode(content, kind)
	}
	message, err := tfprotov5.NewDynamicValue(kind, value)
	return &message, err
}

func decode(value tftypes.Value) any {
	switch kind := value.Type(); {
	case !value.IsKnown():
		return unknown{}
	case value.IsNull():
		return nil
	case kind.Is(tftypes.String):
		return contentOf[string](value)
	case kind.Is(tftypes.Bool):
		return contentOf[bool](value)
	case kind.Is(tftypes.Number):
		number := contentOf[big.Float](value)
		rounded, _ := number.Float64()
		return rounded
	case kind.Is(tftypes.Map{}), kind.Is(tftypes.Object{}):
		made := values{}
		for name, item := range contentOf[map[string]tftypes.Value](value) {
			made[name] = decode(item)
		}
		return made
	default:
		made := []any{}
		for _, item := range contentOf[[]tftypes.Value](value) {
			made = append(made, decode(item))
		}
		return made
	}
}

// contentOf reads a value of which the type is known, so that it cannot fail.
func contentOf[T any](value tftypes.Value) T {
	var content T
	if err := value.As(&content); err != nil {
		panic(err)
	}
	return content
}

func encode(value any, kind tftypes.Type) tftypes.Value {
	switch value := value.(type) {
	case nil:
		return tftypes.NewValue(kind, nil)
	case unknown:
		return tftypes.NewValue(kind, tftypes.UnknownValue)
	case values:
		made := map[string]tftypes.Value{}
		if object, isObject := kind.(tftypes.Object); isObject {
			for name, inner := range object.AttributeTypes {
				made[name] = encode(value[name], inner)
			}
		} else {
			for name, item := range value {
				made[name] = encode(item, kind.(tftypes.Map).ElementType)
			}
		}
		return tftypes.NewValue(kind, made)
	case []any:
		var inner tftypes.Type
		switch kind := kind.(type) {
		case tftypes.List:
			inner = kind.ElementType
		case tftypes.Set:
			inner = kind.ElementType
		}
		made := []tftypes.Value{}
		for _, item := range value {
			made = append(made, encode(item, inner))
		}
		return tftypes.NewValue(kind, made)
	default:
		return tftypes.NewValue(kind, value)
	}
}

// equal is true of equal values, and of texts that are the same JSON: AWS lays documents out in its own way.
func equal(left, right any) bool {
	if reflect.DeepEqual(left, right) {
		return true
	}
	one, isText := left.(string)
	other, areTexts := right.(string)
	if !isText || !areTexts {
		return false
	}
	var first, second map[string]any
	return json.Unmarshal([]byte(one), &first) == nil && json.Unmarshal([]byte(other), &second) == nil && reflect.DeepEqual(first, second)
}
