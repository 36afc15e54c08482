"""CloudFormation, as far as `cloudformation/karpenter.yaml` and its like need it.

Done anew, because moto creates less than a template says and updates nothing: stacks and change sets whose
resources are made through the account's own public API. Types and functions it does not know are refused, never
passed over.

| module | job |
|---|---|
| `template` | YAML, parameters, rules, conditions, functions |
| `resources` | one handler for each resource type: create, update, delete |
| `stack` | what differs, in which order, rollback, events |
| `api` | the Query protocol |
"""
