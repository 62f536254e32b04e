import {
  exported,
  flag,
  flags,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  place,
  type Translation,
  wrongValue,
} from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { isPlaceholder, wholeOf } from '../rows/values';

// Arguments of torchrun. Source: torch.distributed.run's parser.

const LOGS = 'where and how the launcher writes the output of processes';

function machinesOf({ value }: KeyInput): Translation {
  const [least, most = least] = String(value).split(':');
  const machines = wholeOf(most);
  if (least === most) return { place: { machines } };
  return {
    place: { machines },
    effect: 'warning',
    why: `machines: ${machines}; the number does not change during a training here`,
  };
}

function perMachine({ value }: KeyInput): Translation {
  const name = String(value);
  if (['auto', 'gpu', 'cpu', 'xpu'].includes(name))
    return {
      effect: 'warning',
      why: `one process per ${name === 'auto' ? 'GPU' : name.toUpperCase()} of the machine, and no line says how many there are; write the number`,
    };
  if (!/^\d+$/.test(name)) throw wrongValue(value, 'a number, auto, gpu or cpu');
  return { place: { ranksPerMachine: wholeOf(value) } };
}

const machines: KeyRow = { ...place('number of machines', () => ({})), mean: machinesOf };
const processes: KeyRow = { ...place('ranks per machine', () => ({})), mean: perMachine };

/** Returns the row of a host's address. The address is not looked up; a placeholder gets a warning. */
export function addressKey(says: string): KeyRow {
  return {
    ...exported(says),
    mean: ({ value, line }) =>
      isPlaceholder(value)
        ? {
            effect: 'warning',
            why: `placeholder address, line ${line}: write the address of machine 0 in place of ${String(value)}; addresses are not looked up`,
          }
        : { effect: 'exported', why: says },
  };
}

const MOST_PORT = 65_535;

/** Returns the row of a port. */
export function portKey(says: string): KeyRow {
  return {
    ...exported(says),
    mean: ({ value }) => {
      if (value !== null && wholeOf(value, 0) > MOST_PORT)
        throw wrongValue(value, `a port of at most ${MOST_PORT}`);
      return { effect: 'exported', why: says };
    },
  };
}

/** Arguments of torchrun and other launchers that say where processes meet. */
export const RENDEZVOUS: KeyTable = {
  node_rank: exported('the index of this machine, from 0'),
  master_addr: addressKey('the address of machine 0, at which all processes meet'),
  master_port: portKey('the port of machine 0 at which all processes meet'),
};

export const TORCHRUN: Dialect = {
  name: 'torchrun',
  keys: {
    nnodes: machines,
    nproc_per_node: processes,
    ...RENDEZVOUS,
    rdzv_backend: exported('how processes find each other before they train'),
    rdzv_endpoint: addressKey('where processes find each other before they train'),
    rdzv_id: exported('how processes find each other before they train'),
    rdzv_conf: exported('how processes find each other before they train'),
    standalone: flag(exported('all processes are on this machine, which chooses a port')),
    local_addr: addressKey('the address of this machine'),
    max_restarts: exported('how often the launcher starts failed processes again'),
    monitor_interval: exported('how often the launcher looks at its processes'),
    start_method: none('how processes are made; a rank here is a process of its own'),
    event_log_handler: none(LOGS),
    role: none('the name of the processes in logs'),
    ...flags({
      module: none('how the script is started'),
      no_python: none('how the script is started'),
      run_path: none('how the script is started'),
      virtual_local_rank: none('which GPU a process sees'),
      // Arguments of the older torch.distributed.launch.
      use_env: none('processes get their rank from the environment'),
      help: none('prints the help of the program'),
    }),
    log_dir: none(LOGS),
    redirects: none(LOGS),
    tee: none(LOGS),
    local_ranks_filter: none(LOGS),
    duplicate_stdout_filters: none(LOGS),
    duplicate_stderr_filters: none(LOGS),
    logs_specs: none(LOGS),
    numa_binding: none('ranks are not bound to cores here'),
    signals_to_handle: none('here, a rank ends when its launcher ends'),
    shutdown_timeout: none('here, a rank ends when its launcher ends'),
  },
  usual: (other) =>
    other('nproc_per_node') === undefined
      ? {
          place: { ranksPerMachine: 1 },
          effect: 'used',
          why: '1 rank per machine, without --nproc_per_node',
        }
      : null,
};

/** Returns the numbers of machines and ranks from --include, if its value names each GPU: 'worker-0:0,1@worker-1:0'. */
function included({ value }: KeyInput): Translation {
  const machines = String(value).split('@');
  const counts = machines.flatMap(
    (machine) => /:(\d+(?:,\d+)*)$/.exec(machine)?.[1]?.split(',').length ?? [],
  );
  return counts.length === machines.length
    ? { place: { machines: counts.length, world: counts.reduce((sum, count) => sum + count, 0) } }
    : { effect: 'exported', why: 'which machines and GPUs are used; their number is not in this line' };
}

/** The dialect of the `deepspeed` command. Source: deepspeed's launcher/runner.py. */
export const DEEPSPEED_LAUNCHER: Dialect = {
  name: 'deepspeed',
  keys: {
    num_gpus: processes,
    num_accelerators: processes,
    num_nodes: machines,
    hostfile: {
      ...place("DeepSpeed's file of machines, which is read too", () => ({})),
      mean: ({ value, other }) => ({
        file: String(value),
        effect: 'used',
        why: 'is read too',
        // A file of another machine tells nothing more than the number of machines.
        ...(other('num_nodes') !== undefined && { unread: 'exported' as const }),
      }),
    },
    include: { ...place('which machines and GPUs are used', () => ({})), mean: included },
    exclude: exported('which machines and GPUs are used'),
    ...RENDEZVOUS,
    launcher: exported('how the processes of other machines are started'),
    launcher_args: exported('how the processes of other machines are started'),
    ssh_port: exported('how the processes of other machines are started'),
    venv_script: exported('how the processes of other machines are started'),
    ...flags({
      module: none('how the script is started'),
      no_python: none('how the script is started'),
      no_local_rank: none('how the script is started'),
      no_ssh: exported('each machine is started by hand'),
      no_ssh_check: exported('how the processes of other machines are started'),
      force_multi: exported('how the processes of other machines are started'),
      save_pid: none(LOGS),
      bind_cores_to_rank: none('ranks are not bound to cores here'),
      quiet: none(LOGS),
      help: none('prints the help of the program'),
    }),
    enable_each_rank_log: none(LOGS),
    bind_core_list: none('ranks are not bound to cores here'),
    autotuning: none('shardlab recommend searches layouts'),
    log_level: none(LOGS),
  },
};

/** The dialect of DeepSpeed's hostfile, in which each line has a machine and its number of GPUs. */
export const HOSTFILE: Dialect = {
  name: "DeepSpeed's hostfile",
  keys: {
    hosts: {
      ...place('machines and their GPUs', () => ({})),
      mean: ({ value }) => {
        const lines = value as readonly string[]; // read-file.ts made the list
        const slots = lines.map((line) => wholeOf(/slots\s*=\s*(\S+)/.exec(line)?.[1] ?? 1));
        return { place: { machines: slots.length, world: slots.reduce((sum, count) => sum + count, 0) } };
      },
    },
  },
};
