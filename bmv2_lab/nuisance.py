# SPDX-License-Identifier: Apache-2.0
"""What spoils real measurements, and by how much in the lab: every nuisance parameter in one place.

The estimators never read this file. What a fabric's operator could know of it (stamp-point
uncertainties, cable tolerance, wander) is declared in `fabric.yaml`; the rest stays hidden.
`scaled(3)` triples all of it, the declared uncertainties too: bounds must grow, coverage must hold.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Nuisance:
    """Sizes of the disturbances; times in ns, one value for the whole fabric."""

    link_asymmetry_sd_ns: float = 5.0
    """Standard deviation of a_uv (half the one-way difference) on every healthy link."""
    module_latency_ns_max: int = 30
    """Optical module and FEC latency common to both directions, uniform from 0, undeclared."""
    switch_stamp_uncertainty_ns: int = 4
    """Declared uncertainty of a switch model's stamp-point constants."""
    nic_stamp_uncertainty_ns: int = 3
    """Declared uncertainty of a NIC model's stamp-point constants."""
    model_residual_share: float = 0.75
    """Part of the declared uncertainty that a whole device model's constants may be off by."""
    line_card_residual_share: float = 0.25
    """Part of it that varies by line card (four adjacent ports): a correlated bias."""
    egress_jitter_mean_ns: float = 2.0
    """One-sided noise after the egress stamp (MAC FIFO, pipeline), exponential."""
    egress_jitter_max_ns: int = 60
    """The jitter is cut off here."""
    rate_offset_sd_ppb: float = 8_000.0
    """Standard deviation of an oscillator's constant rate error."""
    rate_offset_max_ppb: int = 50_000
    """Its hard limit, as declared in `fabric.yaml`."""
    wander_ns_per_s_sqrt_s: float = 10.0
    """Random walk of a clock's rate: ns/s per square root of a second."""
    stamp_unit_ns: int = 1
    """Quantum of every stamp; 1000 stands in for BMv2."""
    ptm_uncertainty_ns: int = 20
    """Declared: the two readings of a cross-stamp are at most this far apart."""
    ptm_constant_share: float = 0.75
    """Part of it that is constant for one NIC: its way through the PCIe tree."""
    report_latency_ns: int = 20_000
    """From a switch's report port to the collector, before jitter."""
    report_jitter_mean_ns: float = 4_000.0
    """Exponential jitter on that way; reports may overtake each other."""

    def scaled(self, factor: int) -> "Nuisance":
        """The same kinds of disturbance, `factor` times as large (stamp unit and limits stay)."""
        return replace(
            self,
            link_asymmetry_sd_ns=self.link_asymmetry_sd_ns * factor,
            module_latency_ns_max=self.module_latency_ns_max * factor,
            switch_stamp_uncertainty_ns=self.switch_stamp_uncertainty_ns * factor,
            nic_stamp_uncertainty_ns=self.nic_stamp_uncertainty_ns * factor,
            egress_jitter_mean_ns=self.egress_jitter_mean_ns * factor,
            egress_jitter_max_ns=self.egress_jitter_max_ns * factor,
            rate_offset_sd_ppb=self.rate_offset_sd_ppb * factor,
            rate_offset_max_ppb=self.rate_offset_max_ppb * factor,
            wander_ns_per_s_sqrt_s=self.wander_ns_per_s_sqrt_s * factor,
            ptm_uncertainty_ns=self.ptm_uncertainty_ns * factor,
            report_latency_ns=self.report_latency_ns * factor,
            report_jitter_mean_ns=self.report_jitter_mean_ns * factor,
        )
