"""An AWS account on this machine: moto, augmented until a node autoscaler can be tested against it.

`server` is the front door. `patches` changes how moto behaves, `services` answers what moto does not have,
`control` lets a test cause trouble, `seed` furnishes the account. See ../README.md.
"""

ACCOUNT = "123456789012"
