"""An AWS account on this machine: moto, augmented until a node autoscaler can be tested against it.

`server` is the front door; `launcher` runs it alone, `extension` inside LocalStack. `patches` changes how moto behaves,
`services` answers what moto does not have, `control` lets a test cause trouble, `seed` furnishes the account. See
../README.md.
"""

import os

# moto reads these when it is imported.
os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"  # AmazonEKSWorkerNodePolicy and its kind exist
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"  # 1,300 images all created "now"; see images.py

ACCOUNT = "123456789012"
