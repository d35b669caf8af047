"""What machines, drivers, kernels, schedulers and files say.

Sources: errno(3); the kernel's, NVIDIA's and AMD's drivers; CUDA's, ROCm's and CANN's error names; Slurm; PyTorch's data
loader; Ray's memory monitor.
"""

from typing import Final

from controller.recovery.kinds import Kind, Signature, signature
from controller.recovery.xids import DRAIN, REPLACE, RESTART, alternatives

XID: Final = r"\bXid\b(?:\s*\(PCI[^)\n]*\))?[ :=#]*(?:\d+/)?(?:{codes})\b(?!\s*/)"
"""`NVRM: Xid (PCI:0000:4e:00): 79, ...`, `XID 79(GPU has ...)`, `Xid: 79`."""

DISK: Final[tuple[Signature, ...]] = (
    signature(
        Kind.DISK_FULL, r"\bEDQUOT\b|quota exceeded|\(os error 122\)|exceeded.*\bquota\b", "the quota is used up",
        "disk_quota",
    ),
    signature(
        Kind.DISK_FULL,
        r"\bENOSPC\b|No space left on device|not enough (free )?(disk )?space|\bOutOfDiskError\b|\(os error 28\)|"
        r"There is not enough space on the disk|disk is full|\d+ requested and \d+ written|"
        r"unexpected pos \d+ vs \d+|PytorchStreamWriter failed",
        "the disk is full",
    ),
)  # fmt: skip

DEVICE: Final[tuple[Signature, ...]] = (
    signature(
        Kind.DEVICE,
        r"\b(mlx[45]_\w+|mlx5e\w*|bnxt_en|ice|i40e|irdma|efa)\b[^\n]*(link (is )?down|tx_timeout|health compromised|fatal error)",
        "the network interface failed", "nic_link_down",
    ),
    signature(
        Kind.DEVICE,
        r"uncorrectable ECC|cudaErrorECCUncorrectable|\bdouble[- ]bit ECC|DBE \(double|uncorrectable NVLink error|"
        r"CUDA_ERROR_ECC_UNCORRECTABLE|HBM.*(multi|double)[- ]bit|" + XID.format(codes="48|95|140|171|172"),
        "the device's memory failed", "gpu_ecc_uncorrectable",
    ),
    signature(
        Kind.DEVICE,
        r"fallen off the bus|GPU_?_IS_LOST|GPU is lost|NVML_ERROR_GPU_IS_LOST|GPU requires reset|"
        + XID.format(codes="79"),
        "the device fell off the bus", "gpu_fallen_off_bus",
    ),
    signature(
        Kind.DEVICE, r"\bGSP\b.*time ?d? ?out|Timeout (after|waiting).*\bGSP\b|" + XID.format(codes="119|120"),
        "the device's firmware does not answer", "gpu_gsp_timeout",
    ),
    signature(
        Kind.DEVICE,
        r"\bSXid\b[^\n]*(?<!Non-)\bFatal|NVLink.*(fatal|link down|training failed)|fabric.*(fatal|unhealthy)|"
        + XID.format(codes="74|136|144|145|146|149|150|155"),
        "the link between devices failed", "nvlink_fabric_fault",
    ),
    signature(Kind.DEVICE, r"\bXid\b[^\n]*\b154\b[^\n]*(reset required|reboot required|drain)",
              "the driver asks for a reset"),
    signature(Kind.DEVICE, XID.format(codes=alternatives(REPLACE | DRAIN)), "the driver reports a failed device"),
    signature(
        Kind.DEVICE,
        r"amdgpu[^\n]*(uncorrectable|ERREVENT|RAS.*(fatal|poison)|xgmi.*(down|error))|uncorrectable hardware error|"
        r"\bRAS\b[^\n]*uncorrectable|Accelerator Check Architecture",
        "the device reports uncorrectable errors", "amd_ras_uncorrectable",
    ),
    signature(
        Kind.DEVICE, r"npu-smi[^\n]*(Alarm|Critical)|\bdevice heartbeat (is )?lost|HBM.*(ecc|isolated)|lost chip|"
        r"error code is (507010|507054|507055|107035)", "the device failed", "npu_device_fault",
    ),
    signature(
        Kind.HOST_FAULT,
        r"Machine Check Exception|mce: \[Hardware Error\]|\[Hardware Error\].*(fatal|uncorrect)|Kernel panic|"
        r"(soft|hard) lockup|rcu.*self-detected stall|EDAC.*\bUE\b|nvme\S*: .*(timeout, (aborting|reset)|removing|failed)|"
        r"Buffer I/O error|blk_update_request: I/O error|EXT4-fs error|XFS.*(shutdown|corrupt)|Remounting filesystem read-only",
        "the machine itself failed",
    ),
    signature(
        Kind.HOST_FAULT, r"DUE TO NODE FAILURE|Node failure on|\bNodeDiedError|NODE_FAIL\b|node .*was marked dead",
        "its scheduler lost the node", "node_lost",
    ),
)  # fmt: skip

SETUP: Final[tuple[Signature, ...]] = (
    signature(
        Kind.NODE_SETUP,
        r"system not yet initialized|cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY|fabric ?manager.*(not|fail|inactive)|"
        r"(?:error|Error) \(?802\)?",
        "the fabric manager of the node does not run", "fabric_manager_down",
    ),
    signature(
        Kind.NODE_SETUP,
        r"driver version is insufficient|driver/library version mismatch|NVIDIA driver on your system is too old|"
        r"cudaErrorInsufficientDriver|system has unsupported display driver|cudaErrorSystemDriverMismatch|"
        r"forward compatibility was attempted on non supported",
        "the node's driver does not fit the job", "version_mismatch",
    ),
    signature(
        Kind.NODE_SETUP, r"with (error|status)[ =]4\b[^\n]*vendor err 81|local protection error|ibv_reg_mr[^\n]*(Bad address|fail)|"
        r"nv_?peer_?mem\w*[^\n]*(not|fail)", "the node's GPUDirect set-up refuses memory", "ib_gdr_protection_error",
    ),
    signature(
        Kind.NODE_SETUP,
        r"no CUDA-capable device|No CUDA GPUs are available|Found no NVIDIA driver|CUDA-capable device\(s\) is/are busy|"
        r"cudaErrorDevicesUnavailable|couldn't communicate with the NVIDIA driver|No HIP GPUs are available|"
        r"CUDA_ERROR_NO_DEVICE|no ROCm-capable device|\bdrvErr=\d+|No devices were found",
        "the node shows no device that could be used", "device_unavailable",
    ),
    signature(
        Kind.SHARED_MEMORY,
        r"out of shared memory|shared memory limit|killed by signal: Bus error|/dev/shm[^\n]*(full|too small|space)|"
        r"No space left on device[^\n]*/dev/shm|unable to (open|write|allocate|mmap|resize)[^\n]*shared memory|"
        r"NCCL WARN[^\n]*/dev/shm|Error while creating shared memory segment|\bBus error\b|BusError|\bSIGBUS\b",
        "the shared memory (/dev/shm) is too small", "shm_exhausted",
    ),
    signature(
        Kind.ENGINE_DEAD,
        r"(Async)?EngineDeadError|Background loop (has errored|is not running|has stopped)|EngineCore (encountered|died|failed)|"
        r"Engine(Core)? (process )?(is dead|died)|engine (is|has) (dead|died)|zombie scheduler|scheduler hit an exception|"
        r"Scheduler.*(died|was killed)|executor worker.*(died|exited)|Engine loop is not running",
        "the serving engine behind the server is dead",
    ),
)  # fmt: skip

MEMORY: Final[tuple[Signature, ...]] = (
    signature(
        Kind.GPU_LEFTOVER, r"out of memory[^\n]*\bProcess \d+ has [\d.]+ [KMGT]i?B memory in use|"
        r"nvidia-smi shows memory used, no|memory[^\n]*(held|used) by (a )?(leftover|zombie|dead)",
        "another process still holds the device's memory", "gpu_mem_leftover",
    ),
    signature(
        Kind.GPU_OOM,
        r"(CUDA|HIP|NPU|MUSA|XPU|MPS backend|device)( error:)? out of memory|OutOfMemoryError: (CUDA|HIP|NPU|XPU)|"
        r"CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: (Out of memory|.*allocat)|CUBLAS_STATUS_ALLOC_FAILED|"
        r"Cuda failure '?out of memory|\bEL0004\b|hipErrorOutOfMemory|larger than the available KV cache memory|"
        r"No available memory for the cache blocks|memory (in|on) (the )?(GPU|device) is (exhausted|insufficient)|"
        r"Not enough memory\. Please try to increase --mem-fraction",
        "the device is out of memory",
    ),
    signature(
        Kind.HOST_OOM,
        r"\bMemoryError\b|Cannot allocate memory|std::bad_alloc|\boom[-_]kill|Out[ -]of[ -]memory: Kill|OOM Killed|\bOOMKilled\b|"
        r"killed by signal: Killed|^Killed\s*$|^\S*: line \d+: +\d+ Killed|DefaultCPUAllocator[^\n]*memory|"
        r"can't allocate memory|node running low on memory|Memory cgroup out of memory|ObjectStoreFullError|"
        r"Unable to allocate [\d.]+ [KMGT]i?B|ArrayMemoryError|exceeded (its )?memory limit|OUT_OF_MEMORY\b",
        "the host is out of memory",
    ),
)  # fmt: skip

SCHEDULER: Final[tuple[Signature, ...]] = (
    signature(
        Kind.PREEMPTED,
        r"DUE TO (PREEMPTION|TIME LIMIT)|\bpreempt(ed|ion)\b[^\n]*(signal|notice|instance|node|job|requeue|by)|"
        r"spot (instance )?(interruption|termination|reclaim)|instance.*scheduled for (termination|reclaim|maintenance)|"
        r"Received SIGTERM[^\n]*(preempt|time limit)|\bwalltime\b.*exceeded|TerminationByKubernetes|TaintManagerEviction",
        "its scheduler took the nodes back",
    ),
    signature(
        Kind.PORT_IN_USE,
        r"\bEADDRINUSE\b|Address already in use|address already in use|failed to bind[^\n]*(port|address|socket)|"
        r"failed to listen on any local network address|port \d+ is (already )?(in use|occupied|taken)|\bEJ0003\b|"
        r"Failed to bind the IP port|\(os error 98\)",
        "a port was in use",
    ),
)  # fmt: skip

STORAGE: Final[tuple[Signature, ...]] = (
    signature(Kind.STORAGE, r"\bESTALE\b|Stale (NFS )?file handle|\(os error 116\)", "a file handle went stale",
              "fs_stale_handle"),
    signature(
        Kind.STORAGE,
        r"\bEIO\b|Input/output error|\(os error 5\)|Read-only file system|\bEROFS\b|Transport endpoint is not connected|"
        r"Remote I/O error|nfs: server \S+ not responding|LustreError|lost connection to .*(OST|MDT)|"
        r"Cannot send after transport endpoint shutdown|fuse.*(not connected|aborted)|Unable to synchronously open file",
        "the storage failed", "fs_io_error",
    ),
    signature(
        Kind.LIMITS,
        r"Too many open files|\bEMFILE\b|\bENFILE\b|file-max limit|can't start new thread|pthread_create[^\n]*fail|"
        r"Resource temporarily unavailable|received 0 items of ancdata|Too many (processes|threads)|RLIMIT_\w+",
        "a limit of the process is reached", "resource_limits",
    ),
)  # fmt: skip

CONTAINER: Final[tuple[Signature, ...]] = (
    signature(
        Kind.CONTAINER_DEVICE, r"Failed to initialize NVML|NVML: Unknown Error|nvmlInit[^\n]*Unknown Error",
        "the container has lost its devices", "container_lost_gpu",
    ),
    signature(
        Kind.DEVICE_CODE,
        r"illegal memory access|unspecified launch failure|misaligned address|illegal instruction was encountered|"
        r"CUDA_ERROR_(ILLEGAL_ADDRESS|LAUNCH_FAILED|MISALIGNED|ILLEGAL_INSTRUCTION|LAUNCH_TIMEOUT)|warp illegal|"
        r"Memory access fault by GPU|HW Exception by GPU|GPU Hang|amdgpu[^\n]*(ring \S+ timeout|GPU reset)|CUBLAS_STATUS_|"
        r"CUDNN_STATUS_|cuDNN error|CUSOLVER_STATUS_|CUSPARSE_STATUS_|HIPBLAS_STATUS_|"
        r"aicore (exception|error|timeout)|\bEZ9999\b|"
        r"error code is 50(7011|7013|7014|7015|7035|7057)|vector core exception|hipErrorIllegalAddress|"
        + XID.format(codes=alternatives(RESTART)),
        "its code failed on the device", "cuda_app_fault",
    ),
)  # fmt: skip
