"""Addresses of a subnet are handed out in a ring.

Stock moto gives the next machine the address of the one that has just gone, and with it the name of its Node: a new
machine would look like the old one come back. EC2 leaves an address alone for a while; here it comes again only after
every other free address of its subnet has been used.
"""

from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.subnets import Subnet

from . import replace

# The network address, the router, the DNS server and one for the future; the broadcast address is the fifth.
RESERVED_AT_THE_START = 4


def apply() -> None:
    @replace(Subnet, "get_available_subnet_ip")
    def next_in_the_ring(_original: Any, self: Any, instance: Any) -> str:
        size = self.cidr.num_addresses - RESERVED_AT_THE_START - 1
        position = self.__dict__.get("_ring_position", 0)
        for step in range(size):
            place = (position + step) % size
            address = self.cidr.network_address + RESERVED_AT_THE_START + place
            if str(address) in self._subnet_ips or address in self._reserved_ips:
                continue
            self._ring_position = place + 1
            self._subnet_ips[str(address)] = instance
            return str(address)
        message = f"There are not enough free addresses in subnet '{self.id}' to satisfy the requested number of instances."
        raise EC2ClientError("InsufficientFreeAddressesInSubnet", message)
