"""The catalogue knows devices by every name that drivers, Kubernetes labels and people give them."""

import json
import tomllib
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.accelerators import accelerator, canonical, catalogue, suggest

NAMES = sorted(catalogue())


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        # NVIDIA: nvidia-smi, GPU feature discovery, GKE
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA-H100-80GB-HBM3", "h100"),
        ("nvidia-h100-80gb", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("A100-SXM4-40GB", "a100-40gb"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("Tesla-V100-SXM2-16GB", "v100-16gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA RTX 4000 SFF Ada Generation", "rtx-4000-sff-ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"),
        # AMD: rocm-smi, amd-smi
        ("AMD Instinct MI300X OAM", "mi300x"),
        ("AMD Instinct MI250X", "mi250x"),
        ("AMD Instinct MI355X", "mi355x"),
        ("Radeon Instinct MI50", "mi50"),
        # Ascend: npu-smi, device plugin, CANN's soc names
        ("Ascend910B3", "910b3"),
        ("910B4-1", "910b4-1"),
        ("Ascend 910A", "910a"),
        ("910PremiumA", "910a"),
        ("310P3", "310p"),
        ("huawei-Ascend310P", "310p"),
        ("Ascend910_9391", "910c"),
        ("Ascend950PR", "950pr"),
        # others
        ("MLU370-X8", "mlu370-x8"),
        ("MLU590-M9", "mlu590"),
        ("HL-205", "gaudi"),
        ("HL-225", "gaudi2"),
        ("HL-325L", "gaudi3"),
        ("K100_AI", "k100-ai"),
        ("DCU Z100", "z100"),
        ("MXC500", "c500"),
        ("MetaX C500", "c500"),
        ("MTT S5000", "s5000"),
        ("MTT S4000", "s4000"),
        # people
        ("H100", "h100"),
        (" h100 ", "h100"),
        ("rtx4090", "rtx-4090"),
    ],
)
def test_a_device_is_known_by_the_name_that_its_tools_print(printed: str, name: str) -> None:
    assert canonical(printed) == name
    assert accelerator(printed).name == name


@pytest.mark.parametrize("part", ["A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-H100-80GB-HBM3-SHARED", "h100-shared"])
def test_a_part_of_a_device_is_not_taken_for_the_whole(part: str) -> None:
    assert canonical(part) is None


@pytest.mark.parametrize("unknown", ["", "-", "gpu", "banana", "910", "910b", "h1000", "NVIDIA"])
def test_an_unknown_or_ambiguous_name_is_nobody(unknown: str) -> None:
    assert canonical(unknown) is None
    with pytest.raises(KeyError, match="unknown accelerator"):
        accelerator(unknown)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("h1000", "h100"), ("mi300", "mi300x"), ("gaudi-2", "gaudi2"), ("rtx-409", "rtx-4090"), ("rtx-a600", "rtx-a6000")],
)
def test_a_slip_gets_the_nearest_name(typed: str, meant: str) -> None:
    assert suggest(typed) == meant


def test_the_error_says_what_was_probably_meant() -> None:
    with pytest.raises(KeyError, match=r'did you mean "h200"'):
        accelerator("h2000")


def test_nothing_is_suggested_for_a_word_that_is_near_nothing() -> None:
    assert suggest("banana") is None


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_complete_and_finds_itself_by_each_of_its_names(name: str) -> None:
    kind = catalogue()[name]
    assert name == name.lower()
    assert all(canonical(text) == name for text in (kind.name, kind.title, *kind.aliases))
    assert 4 <= kind.memory_gib <= 512
    assert kind.bf16_tflops is None or 10 < kind.bf16_tflops < 5000
    assert kind.source
    assert (kind.interconnect == "pcie") == (kind.domain_size == 1)
    assert kind.kubernetes_resource.count("/") == 1
    assert kind.visible_devices.isupper()


@pytest.mark.parametrize(
    ("vendor", "resource", "variable"),
    [
        ("nvidia", "nvidia.com/gpu", "CUDA_VISIBLE_DEVICES"),
        ("amd", "amd.com/gpu", "ROCR_VISIBLE_DEVICES"),
        ("ascend", "huawei.com/Ascend910", "ASCEND_RT_VISIBLE_DEVICES"),
        ("cambricon", "cambricon.com/mlu", "MLU_VISIBLE_DEVICES"),
        ("gaudi", "habana.ai/gaudi", "HABANA_VISIBLE_MODULES"),
        ("hygon", "hygon.com/dcu", "HIP_VISIBLE_DEVICES"),
        ("metax", "metax-tech.com/gpu", "CUDA_VISIBLE_DEVICES"),
        ("mthreads", "mthreads.com/gpu", "MUSA_VISIBLE_DEVICES"),
    ],
)
def test_each_vendor_is_there_with_its_resource_and_variable(vendor: str, resource: str, variable: str) -> None:
    kinds = [kind for kind in catalogue().values() if kind.vendor == vendor]
    assert resource in {kind.kubernetes_resource for kind in kinds}
    assert {kind.visible_devices for kind in kinds} == {variable}


def test_the_rack_scale_domain_of_gb200_is_72_devices() -> None:
    assert accelerator("gb200").domain_size == 72
    assert accelerator("gb200").interconnect == "nvlink"


def test_no_row_repeats_a_name() -> None:
    data = tomllib.loads(resources.files("muster").joinpath("accelerators.toml").read_text("utf-8"))
    names = [row["name"] for row in data["accelerator"]]
    assert len(names) == len(set(names)) == len(catalogue())


@given(st.sampled_from(NAMES), st.sampled_from(["{}", " {} ", "NVIDIA {}", "{}\n"]), st.booleans())
def test_case_space_and_vendor_words_do_not_matter(name: str, frame: str, upper: bool) -> None:
    text = frame.format(name.upper() if upper else name)
    assert canonical(text) == name


@given(st.text(max_size=60))
def test_any_text_gives_a_name_of_the_catalogue_or_none(text: str) -> None:
    assert canonical(text) in {None, *NAMES}
    json.dumps(suggest(text))
