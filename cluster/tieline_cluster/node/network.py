"""What a cluster adds to the machine's network: a bridge, a table of nftables rules, and the kernel's forwarding."""

import json
import shutil
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network, ip_address
from pathlib import Path

from tieline_cluster.commands import run
from tieline_cluster.definition.plan import BRIDGE_PREFIX, Plan
from tieline_cluster.errors import ClusterError

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
DNS_TIMEOUT = 1.0


def node_address() -> str:
    """The machine's address on the network, by which pods reach it; no packet is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            pass
    for link in json.loads(run(["ip", "-j", "-4", "address", "show", "scope", "global"])):
        for address in link["addr_info"]:
            return str(address["local"])
    raise ClusterError("The machine has no IPv4 address but loopback: connect it to a network")


def routed_subnets() -> list[IPv4Network]:
    """The subnets that the machine already has routes to, without the default route and those of our bridges."""
    routes = json.loads(run(["ip", "-j", "-4", "route", "show"]) or "[]")
    others = [route for route in routes if not route.get("dev", "").startswith(BRIDGE_PREFIX)]
    destinations = [route["dst"] for route in others if route["dst"] != "default"]
    return [IPv4Network(destination, strict=False) for destination in destinations]


def raise_network(plan: Plan) -> None:
    """Make the bridge and the table as they should be, whatever a run before has left."""
    if not _bridge_is_up(plan):
        if _exists(plan):
            run(["ip", "link", "delete", plan.bridge])
        # A bridge without a fixed hardware address takes one of its ports', and pods would lose their gateway.
        hardware = ":".join(f"{byte:02x}" for byte in (0x0A, 0x58, *plan.gateway.packed))
        run(["ip", "link", "add", "name", plan.bridge, "address", hardware, "type", "bridge"])
        address = f"{plan.gateway}/{plan.pod_subnet.prefixlen}"
        run(["ip", "address", "add", address, "dev", plan.bridge])
        run(["ip", "link", "set", plan.bridge, "up"])
    run(["nft", "-f", "-"], stdin=rules(plan))
    if FORWARDING.read_text().strip() != "1":
        FORWARDING.write_text("1")


def network_is_up(plan: Plan) -> bool:
    """Whether nothing on the machine, such as a firewall that was reloaded, has taken away what we have added."""
    tables = run(["nft", "list", "tables", "ip"]).split()
    return plan.table in tables and FORWARDING.read_text().strip() == "1" and _bridge_is_up(plan)


def remove_network(plan: Plan) -> None:
    """Remove the bridge and the tables."""
    if shutil.which("ip") and _exists(plan):
        run(["ip", "link", "delete", plan.bridge])
    if shutil.which("nft"):
        tables = [(family, plan.services_table) for family in ("ip", "ip6")] + [("ip", plan.table)]
        # Adding before deleting makes the deletion of what is not there no error.
        script = "".join(
            f"add table {family} {name}\ndelete table {family} {name}\n" for family, name in tables
        )
        run(["nft", "-f", "-"], stdin=script)


def rules(plan: Plan) -> str:
    """Our table: pods reach the outside by the machine's address, and nobody outside reaches the cluster's ports."""
    closed = f"{plan.ports.api}, {plan.ports.kubelet}"
    return f"""\
add table ip {plan.table}
delete table ip {plan.table}
table ip {plan.table} {{
    chain outgoing {{
        type nat hook postrouting priority srcnat; policy accept;
        ip saddr {plan.pod_subnet} ip daddr != {plan.pod_subnet} masquerade
    }}
    chain incoming {{
        type filter hook input priority filter; policy accept;
        iifname {{ "lo", "{plan.bridge}" }} accept
        tcp dport {{ {closed} }} drop
    }}
}}
"""


def bridged_packets_are_filtered() -> bool:
    """Whether the kernel rewrites packets that stay on the bridge, as answers from a Service's pod need it.

    Turns it on where the kernel has it. Where it has not, Services must hide the caller's address instead
    (kube-proxy's masqueradeAll).
    """
    if not BRIDGE_FILTER.exists() and shutil.which("modprobe"):
        try:
            run(["modprobe", "br_netfilter"])
        except ClusterError:
            return False
    if not BRIDGE_FILTER.exists():
        return False
    if BRIDGE_FILTER.read_text().strip() != "1":
        BRIDGE_FILTER.write_text("1")
    return True


def answering_name_servers(resolv_conf: Path = Path("/etc/resolv.conf")) -> list[str]:
    """The machine's name servers that answer within a second."""
    try:
        lines = resolv_conf.read_text().splitlines()
    except OSError:
        return []
    servers = [words[1] for words in map(str.split, lines) if len(words) > 1 and words[0] == "nameserver"]
    servers = [server for server in servers if _is_address(server)]
    if not servers:
        return []
    with ThreadPoolExecutor(len(servers)) as pool:
        return [
            server for server, answers in zip(servers, pool.map(_answers, servers), strict=True) if answers
        ]


def _answers(server: str) -> bool:
    # One question, for the root's name servers (RFC 1035, section 4.1).
    question = struct.pack(">HHHHHH", 0x7469, 0x0100, 1, 0, 0, 0) + b"\0" + struct.pack(">HH", 2, 1)
    family = socket.AF_INET6 if ip_address(server).version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.settimeout(DNS_TIMEOUT)
        try:
            asking.sendto(question, (server, 53))
            return asking.recv(512)[:2] == question[:2]
        except OSError:
            return False


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _exists(plan: Plan) -> bool:
    return Path("/sys/class/net", plan.bridge).exists()


def _bridge_is_up(plan: Plan) -> bool:
    if not _exists(plan):
        return False
    (link,) = json.loads(run(["ip", "-j", "-4", "address", "show", "dev", plan.bridge]))
    addresses = [address["local"] for address in link.get("addr_info", [])]
    return "UP" in link["flags"] and addresses == [str(plan.gateway)]
