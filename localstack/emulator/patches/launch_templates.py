"""Launch templates: valid names, pages, NotFound on delete, and no tags that belong to the template itself."""

import re
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses.launch_templates import LaunchTemplates

from . import replace
from .catalogue import page

NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
DEFAULT_PAGE = 200


def apply() -> None:
    @replace(LaunchTemplates, "create_launch_template")
    def create_launch_template(original: Any, self: Any) -> ActionResult:
        name = self._get_param("LaunchTemplateName") or ""
        if not NAME.fullmatch(name):
            raise EC2ClientError(
                "InvalidLaunchTemplateName.MalformedException",
                f"The launch template name '{name}' is not valid: 3-128 letters, numbers and ().-/_ are.",
            )
        result = original(self)
        # Stock moto also copies the template's own tags into the data instances are launched from.
        data = self.ec2_backend.get_launch_template_by_name(name).latest_version().data
        specifications = data.get("TagSpecifications", [])
        data["TagSpecifications"] = [row for row in specifications if row.get("ResourceType") != "launch-template"]
        return result

    @replace(LaunchTemplates, "delete_launch_template")
    def delete_launch_template(original: Any, self: Any) -> ActionResult:
        name = self._get_param("LaunchTemplateName")
        if name:
            self.ec2_backend.get_launch_template_by_name(name)
        elif identifier := self._get_param("LaunchTemplateId"):
            self.ec2_backend.get_launch_template(identifier)
        return original(self)

    @replace(LaunchTemplates, "describe_launch_templates")
    def describe_launch_templates(_original: Any, self: Any) -> ActionResult:
        self.error_on_dryrun()
        templates = self.ec2_backend.describe_launch_templates(
            template_names=self._get_param("LaunchTemplateNames", []),
            template_ids=self._get_param("LaunchTemplateIds", []),
            filters=self._filters_from_querystring(),
        )
        templates, token = page(self, templates, DEFAULT_PAGE)
        creator = f"arn:{self.partition}:iam::{self.current_account}:root"
        rows = [
            {
                "CreateTime": template.create_time,
                "CreatedBy": creator,
                "DefaultVersionNumber": template.default_version_number,
                "LatestVersionNumber": template.latest_version_number,
                "LaunchTemplateId": template.id,
                "LaunchTemplateName": template.name,
                "Tags": template.get_tags(),
            }
            for template in templates
        ]
        return ActionResult({"LaunchTemplates": rows, "NextToken": token})
