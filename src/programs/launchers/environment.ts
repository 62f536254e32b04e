import { exported, flags, type KeyRow, type KeyTable, none, place } from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { wholeOf } from '../rows/values';
import { RENDEZVOUS } from './torchrun';

// The dialects of environment variables and of the options of a Slurm job.

const NCCL = 'NCCL reads it on GPUs, also under an exported launch script; ranks here have no NCCL';
const LAUNCHED = 'the launcher sets it for each process';
const CUDA = 'is for GPUs';
const HUB = 'nothing is downloaded from a hub here';

/** NCCL's environment variables, without their prefix. Source: NVIDIA's list. */
const NCCL_NAMES = [
  'DEBUG',
  'DEBUG_SUBSYS',
  'DEBUG_FILE',
  'IB_DISABLE',
  'IB_HCA',
  'IB_GID_INDEX',
  'IB_TIMEOUT',
  'IB_RETRY_CNT',
  'IB_SL',
  'IB_TC',
  'IB_QPS_PER_CONNECTION',
  'IB_PCI_RELAXED_ORDERING',
  'IB_CUDA_SUPPORT',
  'NET_GDR_LEVEL',
  'NET_GDR_READ',
  'NET',
  'NET_PLUGIN',
  'P2P_DISABLE',
  'P2P_LEVEL',
  'SHM_DISABLE',
  'NVLS_ENABLE',
  'ALGO',
  'PROTO',
  'BUFFSIZE',
  'NTHREADS',
  'MIN_NCHANNELS',
  'MAX_NCHANNELS',
  'MIN_CTAS',
  'MAX_CTAS',
  'CROSS_NIC',
  'TOPO_FILE',
  'SOCKET_FAMILY',
  'SOCKET_NTHREADS',
  'NSOCKS_PERTHREAD',
  'ASYNC_ERROR_HANDLING',
  'BLOCKING_WAIT',
  'TIMEOUT',
  'CUMEM_ENABLE',
  'COLLNET_ENABLE',
  'LAUNCH_MODE',
];

const INTERFACE: KeyRow = exported(
  'the network interface by which machines reach each other; NCCL reads the variable on GPUs; for ranks of PyTorch on several hosts here, give launch the option interface',
);

const processes = place('ranks per machine', (value) => ({ ranksPerMachine: wholeOf(value) }));

export const ENVIRONMENT: Dialect = {
  name: 'the environment',
  keys: {
    ...Object.fromEntries(NCCL_NAMES.map((name) => [`NCCL_${name}`, exported(NCCL)])),
    NCCL_SOCKET_IFNAME: INTERFACE,
    GLOO_SOCKET_IFNAME: INTERFACE,
    TP_SOCKET_IFNAME: INTERFACE,
    ...Object.fromEntries(
      [
        'ASYNC_ERROR_HANDLING',
        'BLOCKING_WAIT',
        'ENABLE_MONITORING',
        'HEARTBEAT_TIMEOUT_SEC',
        'DUMP_ON_TIMEOUT',
        'TRACE_BUFFER_SIZE',
        'AVOID_RECORD_STREAMS',
      ].map((name) => [`TORCH_NCCL_${name}`, exported(NCCL)]),
    ),
    TORCH_DISTRIBUTED_DEBUG: none('every collective is compared between ranks here in any case'),
    MASTER_ADDR: RENDEZVOUS.master_addr ?? none(LAUNCHED),
    MASTER_PORT: RENDEZVOUS.master_port ?? none(LAUNCHED),
    // Variables in which swift's command reads the numbers of ranks and machines, and the address at which all processes meet.
    NPROC_PER_NODE: processes,
    NNODES: place('number of machines', (value) => ({ machines: wholeOf(value) })),
    NODE_RANK: exported('the index of this machine, from 0'),
    RANK: none(LAUNCHED),
    LOCAL_RANK: none(LAUNCHED),
    WORLD_SIZE: none(LAUNCHED),
    CUDA_VISIBLE_DEVICES: none('which GPUs of the machine are used; ranks here run on CPUs'),
    CUDA_DEVICE_MAX_CONNECTIONS: exported(
      'the order of kernels and messages on a GPU, which Megatron-LM demands',
    ),
    CUDA_LAUNCH_BLOCKING: none(CUDA),
    PYTORCH_CUDA_ALLOC_CONF: none(CUDA),
    PYTORCH_ALLOC_CONF: none(CUDA),
    OMP_NUM_THREADS: none('the cores of this machine are divided among its ranks here'),
    TOKENIZERS_PARALLELISM: none('texts become tokens before ranks start here'),
    ...Object.fromEntries(
      [
        'HF_HOME',
        'HF_ENDPOINT',
        'HF_HUB_OFFLINE',
        'HF_HUB_ENABLE_HF_TRANSFER',
        'HF_DATASETS_OFFLINE',
        'TRANSFORMERS_OFFLINE',
        'TRANSFORMERS_CACHE',
        'MODELSCOPE_CACHE',
        'USE_HF',
      ].map((name) => [name, none(HUB)]),
    ),
    ...Object.fromEntries(
      ['WANDB_API_KEY', 'WANDB_MODE', 'WANDB_PROJECT', 'WANDB_DISABLED', 'SWANLAB_API_KEY'].map((name) => [
        name,
        none('run.log writes JSON lines; nothing is written for TensorBoard or other loggers'),
      ]),
    ),
    PYTHONPATH: none('where Python looks for modules'),
    PATH: none('where the shell looks for programs'),
    LD_LIBRARY_PATH: none('where the shell looks for libraries'),
  },
};

const SLURM_WHERE = 'which machines Slurm reserves, and for how long';
const SLURM_LOGS = 'how Slurm names the job and its output';

/** Slurm's options that have no value, or only a value after '='. */
const SLURM_FLAGS: KeyTable = flags({
  exclusive: exported('what Slurm reserves on each machine'),
  overlap: exported('what Slurm reserves on each machine'),
  overcommit: exported('what Slurm reserves on each machine'),
  requeue: exported(SLURM_WHERE),
  no_requeue: exported(SLURM_WHERE),
  kill_on_bad_exit: exported(SLURM_WHERE),
  label: exported(SLURM_LOGS),
  unbuffered: exported(SLURM_LOGS),
  verbose: exported(SLURM_LOGS),
  quiet: exported(SLURM_LOGS),
  pty: exported(SLURM_LOGS),
});

const LAUNCHER = 'the launcher starts the ranks of a machine';

/** The row of the number of tasks on all machines. If a line has the number of tasks per machine, this row has no effect. */
const ALL_TASKS: KeyRow = {
  ...place('number of ranks', () => ({})),
  mean: ({ value, other }) =>
    other('ntasks_per_node') === undefined
      ? { place: { world: wholeOf(value) } }
      : { effect: 'none', why: 'follows from the nodes and the tasks per node' },
};

function slurmKeys(tasks: KeyRow): KeyTable {
  return {
    nodes: {
      ...place('number of machines', (value) => ({ machines: wholeOf(String(value).split('-').at(-1)) })),
    },
    ntasks_per_node: tasks,
    ntasks: tasks === processes ? ALL_TASKS : none(LAUNCHER),
    ...Object.fromEntries(
      [
        'gpus_per_node',
        'gpus',
        'gpus_per_task',
        'gres',
        'cpus_per_task',
        'cpus_per_gpu',
        'mem',
        'mem_per_gpu',
        'mem_per_cpu',
        'gpu_bind',
        'cpu_bind',
        'hint',
      ].map((key) => [key, exported('what Slurm reserves on each machine')]),
    ),
    ...Object.fromEntries(
      [
        'partition',
        'account',
        'qos',
        'time',
        'constraint',
        'nodelist',
        'exclude',
        'reservation',
        'dependency',
        'array',
        'signal',
        'wait',
      ].map((key) => [key, exported(SLURM_WHERE)]),
    ),
    ...Object.fromEntries(
      [
        'job_name',
        'output',
        'error',
        'open_mode',
        'mail_type',
        'mail_user',
        'chdir',
        'export',
        'comment',
        'jobid',
        'container_image',
        'container_mounts',
      ].map((key) => [key, exported(SLURM_LOGS)]),
    ),
    ...SLURM_FLAGS,
  };
}

const OPTIONS = { name: 'Slurm', others: 'Slurm has no such option; the cluster may add it by a plugin' };

/** Options of a Slurm job that starts one launcher per machine; the launchers start the ranks. */
export const SLURM_WITH_LAUNCHER: Dialect = { ...OPTIONS, keys: slurmKeys(none(LAUNCHER)) };

/** Options of a Slurm job whose tasks are the ranks. */
export const SLURM: Dialect = { ...OPTIONS, keys: slurmKeys(processes) };

/** The long names of Slurm's one-letter options. */
export const SLURM_SHORT: Readonly<Record<string, string>> = {
  N: 'nodes',
  D: 'chdir',
  n: 'ntasks',
  J: 'job_name',
  p: 'partition',
  A: 'account',
  t: 'time',
  o: 'output',
  e: 'error',
  c: 'cpus_per_task',
  G: 'gpus',
  w: 'nodelist',
  q: 'qos',
  l: 'label',
  u: 'unbuffered',
  v: 'verbose',
  Q: 'quiet',
  O: 'overcommit',
  K: 'kill_on_bad_exit',
};
