"""Pages of results: the report of one set, and the site of all."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

from caraml.cli.loading import loaded
from caraml.cli.options import (
    REQUIREMENTS,
    add_file,
    add_filter,
    add_folders,
    add_meter,
    add_node_check,
    add_offers,
    add_out,
    say,
)
from caraml.cli.verdicts import read_the_pledge, say_offers
from record.values import count
from results.verdicts.requirements import read_requirements
from results.verdicts.tender.offers import names_of_offers


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands of this module."""
    parser = add(report)
    add_folders(parser)
    add_out(parser, "an .html; default: %(default)s", "report.html")
    add_meter(parser)
    add_node_check(parser)
    add_file(parser, "--prices", "add costs, from prices in the form of examples/prices.yaml")
    add_file(parser, "--requirements", REQUIREMENTS)
    add_offers(parser)

    parser = add(site)
    add_folders(parser)
    add_out(parser, "a new or empty folder, or an older site; default: %(default)s", "public")
    add_filter(parser)


def report(options: argparse.Namespace) -> int:
    """Write a page that ranks the systems with their uncertainty, and its plots as PNG next to it."""
    from results.show.page.report import check_page, write_report
    from results.verdicts.cost import read_prices

    check_page(options.out)
    costs = read_prices(options.prices) if options.prices else None
    requirements = read_requirements(options.requirements) if options.requirements else None
    pledge = read_the_pledge(options, requirements)
    offers = names_of_offers(options.offer, options.folders)
    found = loaded(options.folders, options.node_check, meters=options.meter, offers=offers, costs=costs)
    say_offers(found.tags)
    for system, tag in found.tags.items():
        if costs and tag in costs.systems:
            costs = replace(costs, systems={**costs.systems, system: costs.systems.get(system, costs.systems[tag])})
    page, *_ = write_report(found.records, found.skipped, options.out, costs, requirements, pledge)
    print(page)
    return 0


def site(options: argparse.Namespace) -> int:
    """Write a folder of static pages over all results, to publish: systems, workloads, points and their records."""
    from results.show.page.site import files_of_site, write_site

    files_of_site(options.out)  # an error after the work would waste it
    found = loaded(options.folders, conditions=options.filter)
    say(f"{count(len(found.records), 'record')} read")
    files = write_site(found.records, found.skipped, options.out)
    print(f"{options.out / 'index.html'}: open it in a browser, or publish the folder, which has {files} files")
    return 0
