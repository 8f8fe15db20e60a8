"""BGPy behind a pipe, for `run`: `peer.py GRAPH DEPLOYMENT`.

Each line of standard input is a routing configuration as Levee writes it (prepends only); each line of standard output the
site of every AS and the seconds of processor time that the propagation took. Each site is an AS of its own, a customer of its neighbours.
"""

import gzip
import json
import resource
import sys
import time

from bgpy.as_graphs.base import ASGraph, ASGraphInfo, CustomerProviderLink, PeerLink
from bgpy.simulation_engine import BGP, Announcement, SimulationEngine

PREFIX = "192.0.2.0/24"


class Scenario:
    """What the engine asks of a scenario: the announcements, and that every AS does plain BGP."""

    def __init__(self, announcements):
        self.announcements = announcements

    def get_policy_cls(self, as_obj):
        return BGP


def read(path, deployment):
    transit, peers, clique = set(), set(), set()
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as lines:
        for line in lines:
            if line.startswith("#"):
                if "clique:" in line:
                    clique = {int(asn) for asn in line.split(":")[-1].split()}
                continue
            a, b, is_ = line.split("|")[:3]
            if int(is_) == -1:
                transit.add(CustomerProviderLink(provider_asn=int(a), customer_asn=int(b)))
            else:
                peers.add(PeerLink(int(a), int(b)))
    for site in deployment["sites"]:
        for link in site["links"]:
            transit.add(CustomerProviderLink(provider_asn=link["neighbour"], customer_asn=site["asn"]))
    return ASGraph(
        ASGraphInfo(
            customer_provider_links=frozenset(transit),
            peer_links=frozenset(peers),
            ixp_asns=frozenset(),
            input_clique_asns=frozenset(clique),
        ),
        store_customer_cone_size=False,
        store_provider_cone_size=False,
    )


def announcements(deployment, routing):
    for site, announcement in zip(deployment["sites"], routing["announcements"]):
        path = announcement["everyone"]
        if path is not None:
            yield Announcement(
                prefix=PREFIX,
                as_path=(site["asn"],) * (1 + path.get("prepend", 0)),
                seed_asn=site["asn"],
                next_hop_asn=site["asn"],
            )


def main():
    deployment = json.load(open(sys.argv[2]))
    begin = time.monotonic()
    graph = read(sys.argv[1], deployment)
    print(json.dumps({"ases": len(graph.as_dict), "read_s": time.monotonic() - begin}), flush=True)
    names = {site["asn"]: site["name"] for site in deployment["sites"]}
    for line in sys.stdin:
        scenario = Scenario(tuple(announcements(deployment, json.loads(line))))
        engine = SimulationEngine(graph)
        engine.setup(scenario)
        begin = time.process_time()
        engine.run(0, scenario)
        seconds = time.process_time() - begin
        sites = []
        for as_obj in graph:
            if as_obj.asn not in names:
                route = as_obj.policy.local_rib.get(PREFIX)
                sites.append((as_obj.asn, names[route.as_path[-1]] if route else None))
        rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({"seconds": seconds, "sites": sites, "rss_mb": rss_mb}), flush=True)


main()
