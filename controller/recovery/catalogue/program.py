"""What programs say of themselves: checkpoints, numbers, arguments, code.

Sources: Python's exception hierarchy; PyTorch, safetensors, Orbax, DeepSpeed, Megatron, Hugging Face; POSIX shells.
"""

from typing import Final

from controller.recovery.kinds import Kind, Signature, signature

USER_EXCEPTIONS: Final = (
    "ArithmeticError|AssertionError|AttributeError|FileExistsError|FileNotFoundError|FloatingPointError|ImportError|"
    "IndentationError|IndexError|IsADirectoryError|KeyError|LinAlgError|LookupError|ModuleNotFoundError|NameError|NotADirectoryError|"
    "NotImplementedError|OverflowError|PermissionError|RecursionError|SyntaxError|TabError|TypeError|UnboundLocalError|"
    "UnicodeError|UnicodeDecodeError|UnicodeEncodeError|ValueError|ZeroDivisionError|ValidationError|JSONDecodeError|"
    "ConfigAttributeError|ConfigKeyError|MissingMandatoryValue|MissingConfigException|ConcretizationTypeError|TracerArrayConversionError|"
    "HFValidationError|RepositoryNotFoundError|EntryNotFoundError|ParserError|ScannerError|MisconfigurationException"
)

CHECKPOINTS: Final[tuple[Signature, ...]] = (
    signature(
        Kind.WORLD_SIZE,
        r"world size of \d+ but the current world size is \d+|(different|unequal) (data|tensor|pipeline|model)[- ]parallel|"
        r"(world|dp|tp|pp|data parallel|tensor[- ]parallel|pipeline[- ]parallel|mp)[_ -]?(world[_ ]?)?size[^\n]*"
        r"(checkpoint|saved)[^\n]*(not equal|differ|mismatch|but)|"
        r"checkpoint[^\n]*(world|dp|tp|pp|parallel)[_ -]?(world[_ ]?)?size[^\n]*(not|differ|mismatch|but|expected)|"
        r"(zero|optimizer)[^\n]*checkpoint[^\n]*\b\d+ (ranks|shards|partitions)[^\n]*\b\d+ (ranks|shards|partitions)|"
        r"saved with (world|dp)[^\n]*\d+",
        "the checkpoint was written by another number of ranks", "checkpoint_topology_mismatch",
    ),
    signature(
        Kind.CHECKPOINT_CORRUPT,
        r"HeaderTooLarge|HeaderTooSmall|InvalidHeader|MetadataIncompleteBuffer|InvalidOffset|"
        r"Error while deserializing header",
        "a weights file could not be read", "weights_corrupt",
    ),
    signature(
        Kind.CHECKPOINT_CORRUPT,
        r"failed finding central directory|PytorchStreamReader failed|pickle data was truncated|invalid load key|Ran out of input|"
        r"unexpected EOF|BadZipFile|File is not a zip file|not a ZIP archive|Bad CRC-32|"
        r"CheckpointException[^\n]*(corrupt|missing)|"
        r"check ?point\w*[^\n]*(unexpected EOF|truncated|corrupt|incomplete|hash|checksum|CRC)|"
        r"(corrupt|truncated|incomplete)[^\n]*check ?point|truncated file[^\n]*signature|EOFError: No data left in file|"
        r"Failed to interpret file|not fully written|could only read \d+|unpickling stack underflow|"
        r"DATA_LOSS|checksum (mismatch|does not match)|Error reading[^\n]*(ocdbt|zarr)|zarr[^\n]*(missing|not found)|"
        r"No such file[^\n]*\.distcp|\.distcp\b[^\n]*(No such|EOF|missing)|\bfile in archive is not in|storage has wrong byte size",
        "a checkpoint could not be read",
    ),
    signature(
        Kind.CHECKPOINT_MISMATCH,
        r"(Missing|Unexpected) key[^\n]*state_dict|Error\(s\) in loading state_dict|"
        r"Missing keys?[^\n]*(checkpoint|state)|loaded state dict[^\n]*(different|doesn't match|contains)|"
        r"checkpoint[^\n]*(does not match|doesn't match|mismatch|incompatible|structure)|ckpt[^\n]*mismatch|"
        r"tree structures? (do not|don't) match|on-disk[^\n]*do not match|"
        r"(user-provided|restore) (item|target|args)[^\n]*(do not|does not|mismatch)|"
        r"is not equal to the (checkpoint|input) argument|argument[^\n]*from (the )?checkpoint",
        "the checkpoint does not fit the program", "checkpoint_model_mismatch",
    ),
)  # fmt: skip

NUMBERS: Final[tuple[Signature, ...]] = (
    signature(
        Kind.NAN,
        r"(?:rank (?P<rank>\d+)[^\n]*)?(?:"
        r"\b(NaNs?|non-finite|not finite|nonfinite|inf or nan|nan or inf|infinite)\b[^\n]*\b(loss|grad\w*|norm|logits|weights|tensor|prob\w*)|"
        r"\b(loss|grad\w*|norm|logits)\b[^\n]*\b(is|=|:|found|are|became|become|of|contains?|diverged to|reached)\s*['\"]?(NaN|-?inf|infinite|non-finite)\b|"
        r"either `?inf`?, `?nan`? or element < 0|loss scale already at minimum|Gradient overflow[^\n]*minimum|"
        r"returned nan values in its|Found NaN|loss (is )?nan|invalid value \(nan\))",
        "its numbers are not finite", "nan_grad",
    ),
    signature(
        Kind.DESYNC,
        r"Detected mismatch between collectives|collective[^\n]*mismatch|Mismatched (op|collective|shape|tensor|data)|inconsistent collective|"
        r"(ranks|participants)[^\n]*(different|mismatch\w*|inconsistent)[^\n]*(collective|shape|size|tensor|dtype|op)|"
        r"op\.preamble\.length <= op\.nbytes|params? (at|in|with)[^\n]*appears not to match sizes|message truncated|"
        r"MPI_ERR_TRUNCATE|verif\w+ params[^\n]*rank|Expected to have finished reduction|"
        r"DDP expects same model across all ranks|buffer sizes? (do|does) not match across",
        "its ranks do not call the same collectives", "user_code_desync",
    ),
    signature(
        Kind.USER_ERROR, r"device-side assert|index out of (range|bounds)|Assertion `[^`]*` failed|vectorized_gather_kernel",
        "the program does not fit its data", "user_code_error",
    ),
)  # fmt: skip

OUTSIDE: Final[tuple[Signature, ...]] = (
    signature(
        Kind.ACCESS,
        r"GatedRepoError|gated repo|\b40[134] (Client Error|Unauthorized|Forbidden|Not Found)|HTTP(Status)?Error[^\n]*\b40[134]\b|"
        r"AccessDenied|InvalidAccessKeyId|NoCredentialsError|Unable to locate credentials|invalid (api|access) (key|token)|"
        r"(Authentication|Permission)Error: |api_key.*(configured|not)",
        "a service refuses the job's credentials",
    ),
    signature(
        Kind.EXTERNAL,
        r"\b429\b[^\n]*(Too Many|Client Error)|\bHTTP ?Error:? (429|50\d)\b|Too Many Requests|\b50[0234] (Server Error|Bad Gateway|Service Unavailable|Gateway|Internal)|"
        r"RateLimit|rate limit|\bSlowDown\b|Max retries exceeded|ReadTimeout(Error)?\b|ConnectTimeout|NewConnectionError|HfHubHTTPError|"
        r"Temporary failure in name resolution|Name or service not known|getaddrinfo failed|Could not resolve host|"
        r"EndpointConnectionError|IncompleteRead|ChunkedEncodingError|wandb[^\n]*(timed? ?out|CommError)|SSLError|"
        r"URLError|LocalEntryNotFoundError|couldn't connect to 'https?:|"
        r"ServiceUnavailable|Failed to download|RemoteDisconnected|ServerTimeoutError",
        "a service outside did not answer", "external_service",
    ),
)  # fmt: skip

CODE: Final[tuple[Signature, ...]] = (
    signature(
        Kind.CRASH,
        r"^Segmentation fault|Fatal Python error: (?!.*(Aborted))|\bsegfault at\b|signal SIGSEGV|Signal: Segmentation fault|"
        r"exited on signal 11|double free or corruption|corrupted size vs|stack smashing detected|Floating point exception|"
        r"free\(\): invalid|malloc\(\): |Illegal instruction",
        "it crashed in native code", "crash",
    ),
    signature(
        Kind.USER_ERROR,
        rf"^[ \t]*(?:[\w.]+\.)?(?:{USER_EXCEPTIONS})\b(?::|\s*$)",
        "the program raised an error of its own", "user_code_error",
    ),
    signature(
        Kind.USER_ERROR,
        r"size mismatch for |shapes? cannot be multiplied|shape mismatch|shapes? [^\n]*(not aligned|invalid for|incompatible)|"
        r"operands could not be broadcast|The size of tensor a [^\n]*must match|Expected all tensors to be on the same device|"
        r"Given groups=|Expected \d+D[^\n]*input|expected scalar type|equal size|Sizes of tensors must match|"
        r"Expected (input|target) (batch|size)|dimension out of range|incompatible shapes|"
        r"Trying to backward through the graph a second time|does not require grad|modified by an inplace operation|"
        r"Expected object of scalar type|not implemented for '|invalid device ordinal|"
        r"Torch not compiled with CUDA|no kernel image is available|CUDA-unsupported|"
        r"unrecognized arguments:|the following arguments are required:|\berror: argument |no such option:|"
        r"invalid choice:|undefined symbol|cannot open shared object file|version `?GLIBC\w*_[\d.]+'? not found|"
        r"Could not override|Key '[^']*' is not in struct|Unable to infer|"
        r"vocab[^\n]*mismatch|tokenizer[^\n]*(mismatch|not found|does not)|Expected [^\n]* but (got|found|received)|must be divisible",
        "the program does not fit its data, arguments or libraries", "user_code_error",
    ),
    signature(
        Kind.USER_ERROR,
        r"can't open file '.*': \[Errno 2\]|: (command )?not found$|: No such file or directory$|No module named |"
        r"Syntax error: |syntax error near unexpected token|: Permission denied$|: Is a directory$|"
        r"cannot execute binary file|executable file not found in|exec format error|unbound variable$",
        "the program or a part of it is missing or wrong", "user_code_error",
    ),
)  # fmt: skip
