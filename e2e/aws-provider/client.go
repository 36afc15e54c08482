package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// client calls an account: the one at the endpoints of the configuration, and never AWS itself.
type client struct {
	region, key, secret string
	endpoints           values
}

// refusal is an answer of AWS that is an error.
type refusal struct{ call, code, message string }

func (r *refusal) Error() string { return fmt.Sprintf("%s: %s: %s", r.call, r.code, r.message) }

// isGone is true of answers that say that a thing does not exist.
func isGone(err error) bool {
	var refused *refusal
	if !errors.As(err, &refused) {
		return false
	}
	for _, part := range []string{"NoSuchEntity", "NotFound", "NonExistent", "DoesNotExist"} {
		if strings.Contains(refused.code, part) {
			return true
		}
	}
	return false
}

// query makes a call of IAM, STS or EC2; parameters are names and values in turn, and an empty value leaves one out.
func (c *client) query(service, action string, parameters ...string) (values, error) {
	version := map[string]string{"iam": "2010-05-08", "sts": "2011-06-15", "ec2": "2016-11-15"}[service]
	form := url.Values{"Action": {action}, "Version": {version}}
	for index := 0; index < len(parameters); index += 2 {
		if parameters[index+1] != "" {
			form.Set(parameters[index], parameters[index+1])
		}
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	answer, err := c.send(action, service, http.MethodPost, "/", header, []byte(form.Encode()))
	if err != nil {
		return nil, err
	}
	read, err := readXML(answer)
	if result, isThere := read[action+"Result"].(values); isThere {
		return result, err
	}
	return read, err
}

// rpc makes a call of SQS or EventBridge.
func (c *client) rpc(service, target string, input values) (values, error) {
	header := http.Header{"X-Amz-Target": {target}, "Content-Type": {"application/x-amz-json-1.0"}}
	if service == "events" {
		header.Set("Content-Type", "application/x-amz-json-1.1")
	}
	return c.exchange(target, service, http.MethodPost, "/", header, input)
}

// eks makes a call of EKS.
func (c *client) eks(method, path string, input values) (values, error) {
	return c.exchange(method+" "+path, "eks", method, path, http.Header{"Content-Type": {"application/json"}}, input)
}

func (c *client) exchange(call, service, method, path string, header http.Header, input values) (values, error) {
	var body []byte
	if input != nil {
		var err error
		if body, err = json.Marshal(input); err != nil {
			return nil, err
		}
	}
	answer, err := c.send(call, service, method, path, header, body)
	if err != nil || len(answer) == 0 {
		return values{}, err
	}
	var read any
	if err := json.Unmarshal(answer, &read); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", call, err)
	}
	object, _ := asValues(read).(values)
	return object, nil
}

func (c *client) send(call, service, method, path string, header http.Header, body []byte) ([]byte, error) {
	endpoint := c.endpoints.text(service)
	if endpoint == "" {
		return nil, fmt.Errorf("%s: no endpoint for `%s`; this stand-in calls emulated accounts only: set `endpoints` of the provider", call, service)
	}
	request, err := http.NewRequest(method, endpoint+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = header
	hash := sha256.Sum256(body)
	credentials := aws.Credentials{AccessKeyID: c.key, SecretAccessKey: c.secret}
	err = v4.NewSigner().SignHTTP(context.Background(), credentials, request, hex.EncodeToString(hash[:]), service, c.region, time.Now())
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = refused(call, response, answer)
	}
	return answer, err
}

func refused(call string, response *http.Response, answer []byte) error {
	found := &refusal{call: call, code: response.Header.Get("X-Amzn-Errortype"), message: string(answer)}
	var said struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(answer, &said) == nil && said.Type != "" {
		found.code, found.message = said.Type, said.Message
	}
	if read, err := readXML(answer); err == nil {
		if errors, isEC2 := read["Errors"].([]any); isEC2 && len(errors) > 0 {
			read = values{"Error": errors[0]}
		}
		found.code, found.message = read.child("Error").text("Code"), read.child("Error").text("Message")
	}
	if found.code == "" {
		found.code = strconv.Itoa(response.StatusCode)
	}
	return found
}

// readXML reads an answer: elements by name, and lists where all elements have the name of an item.
func readXML(answer []byte) (values, error) {
	var root element
	if err := xml.Unmarshal(answer, &root); err != nil {
		return nil, err
	}
	read, _ := root.value().(values)
	return read, nil
}

type element struct {
	XMLName  xml.Name
	Text     string    `xml:",chardata"`
	Elements []element `xml:",any"`
}

func (e element) value() any {
	if len(e.Elements) == 0 {
		return strings.TrimSpace(e.Text)
	}
	items, fields := []any{}, values{}
	for _, inner := range e.Elements {
		switch name := inner.XMLName.Local; {
		case name == "member" || name == "item" || e.XMLName.Local == "Errors":
			items = append(items, inner.value())
		default:
			fields[name] = inner.value()
		}
	}
	if len(items) > 0 {
		return items
	}
	return fields
}

// asValues gives decoded JSON the types of values.
func asValues(read any) any {
	switch read := read.(type) {
	case map[string]any:
		made := values{}
		for name, item := range read {
			made[name] = asValues(item)
		}
		return made
	case []any:
		for index, item := range read {
			read[index] = asValues(item)
		}
	}
	return read
}
