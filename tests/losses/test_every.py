"""The list of losses that laws are tested with."""

from __future__ import annotations

from .every import LOSSES, registered_kinds


def test_every_registered_loss_is_in_the_list():
    assert {type(loss) for loss in LOSSES} == registered_kinds()


def test_the_list_has_smooth_kinked_and_nonconvex_losses():
    assert {(loss.smooth, loss.convex) for loss in LOSSES} == {(True, True), (False, True), (False, False)}
