import { parse, stringify } from 'yaml';
import { configWarnings } from '../../../config/config-warnings';
import { parseTrainConfig, type TrainConfigInput } from '../../../config/train-config';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr, ofParts, onlyIf } from '../finding';
import { ACCELERATE_YAML, NCCL_ENV } from './document-files';

const MACHINES = 4;
const GPUS_EACH = 8;

/** The settings that the statement names, as in the file. */
const STATED: Readonly<Record<string, unknown>> = {
  distributed_type: 'DEEPSPEED',
  mixed_precision: 'bf16',
  rdzv_backend: 'static',
  main_process_port: 12_345,
  num_machines: MACHINES,
  num_processes: MACHINES * GPUS_EACH,
};
const STATED_OF_DEEPSPEED: Readonly<Record<string, unknown>> = {
  zero_stage: 2,
  offload_optimizer_device: 'cpu',
  offload_param_device: 'cpu',
  zero3_init_flag: true,
  gradient_accumulation_steps: 1,
  gradient_clipping: 1,
  deepspeed_multinode_launcher: 'standard',
};

/** The file's settings as a configuration of this library. */
const AS_CONFIG: TrainConfigInput = {
  model: 'tiny',
  parallel: { strategy: 'ZERO_2' },
  offload: { optimizer: true, parameters: true },
  mixedPrecision: 'bf16',
  accumulation: 1,
  clipNorm: 1,
};

const WARNING_CELL = `const job = await sl.launch({ ranks: 2 });
const run = await job.train({ model: 'tiny', parallel: { strategy: 'ZERO_2' }, offload: { optimizer: true, parameters: true } });`;

/** The YAML, key by key. */
export const ACCELERATE_SETTINGS: readonly ClaimEntry[] = [
  {
    claim: claimOf('acc.yaml'),
    expected: { verdict: 'holds partly', value: 1, within: 0 },
    check() {
      const file = readYaml();
      const { deepspeed_config: deepspeed, dynamo_config: dynamo } = file as Readonly<
        Record<string, Readonly<Record<string, unknown>>>
      >; // sections of the file above
      const isAsStated =
        holds(file, STATED) &&
        holds(deepspeed, STATED_OF_DEEPSPEED) &&
        holds(dynamo, { dynamo_backend: 'INDUCTOR' });
      return {
        verdict: ofParts(isAsStated, warningsOf(AS_CONFIG).length === 0),
        part: 'all keys exist, 4 x 8 is 32, and the optimizer is on the CPU',
        predicted: warningsOf(AS_CONFIG).length,
        unit: 'warnings',
        by: 'two keys have no effect at stage 2 (acc.yaml.offload_param)',
        why: 'Accelerate has all these keys, and they fit together: ZeRO-2 over 32 ranks, optimizer on the CPU. offload_param_device and zero3_init_flag have no effect at stage 2, and main_process_ip is masked: write an address before you start.',
        evidence: { kind: 'run', source: WARNING_CELL },
      };
    },
  },
  {
    claim: claimOf('acc.yaml.offload_param'),
    expected: { verdict: 'off', value: 2, within: 0 },
    check() {
      const [warning] = warningsOf(AS_CONFIG).filter((text) => text.startsWith('offload.parameters'));
      return {
        verdict: holdsOr(warning === undefined, 'off'),
        predicted: 2,
        unit: 'settings without effect',
        by: 'neither has an effect at stage 2',
        why:
          'Stages 1 and 2 store whole parameters on every GPU, so there are no shards to move to the CPU or to initialize; both settings ' +
          'are for stage 3. offload_optimizer_device works at stage 2.',
        evidence: { kind: 'run', source: WARNING_CELL },
      };
    },
  },
  {
    claim: claimOf('acc.ranks'),
    expected: { verdict: 'holds', value: 32, within: 0 },
    check() {
      const { num_machines: machines, num_processes: processes } = readYaml();
      const product = Number(machines) * GPUS_EACH;
      return {
        verdict: holdsOr(processes === product, 'off'),
        predicted: product,
        unit: 'processes',
        by: '',
        why: 'num_processes counts the processes of all machines, not of one machine: 4 x 8 = 32, as in the file.',
        evidence: { kind: 'formula', source: '4 * 8' },
      };
    },
  },
  {
    claim: claimOf('acc.per_machine'),
    expected: { verdict: 'holds', value: 4, within: 0 },
    check() {
      const base = readYaml();
      const files = Array.from({ length: MACHINES }, (_, rank) => stringify({ ...base, machine_rank: rank }));
      const differing = new Set(files.flatMap((file) => linesNotIn(file, files[0] ?? '')));
      const isOneKey = [...differing].every((line) => line.startsWith('machine_rank:'));
      return {
        verdict: holdsOr(isOneKey, 'off'),
        predicted: new Set(files).size,
        unit: 'files',
        by: '',
        why:
          'There are four files that differ only in machine_rank, and each machine starts with its file. The order does not matter: with the ' +
          'static rendezvous the other machines wait for the main machine’s port, up to the store’s timeout.',
        evidence: {
          kind: 'formula',
          source: "new Set([0, 1, 2, 3].map((rank) => 'machine_rank: ' + rank)).size",
        },
      };
    },
  },
  {
    claim: claimOf('acc.nccl'),
    expected: { verdict: 'holds only if', value: 1, within: 0 },
    check() {
      const atDefault = Object.entries(NCCL_ENV).filter(([name, value]) => NCCL_DEFAULTS[name] === value);
      return {
        verdict: onlyIf(
          Object.keys(NCCL_ENV).every((name) => name in NCCL_DEFAULTS),
          false,
        ),
        condition: 'the network is RoCE v2 with GID 3, and eth0 is its interface',
        otherwise: 'on InfiniBand the index has no meaning, and without eth0 nothing starts',
        predicted: atDefault.length,
        unit: 'variables at their default',
        by: '',
        why: 'All five exist, but none is tuned: NCCL_IB_DISABLE=0 is the default; GID index 3 means RoCE v2 on most network cards; eth0 must exist on every machine, and with InfiniBand it carries only the bootstrap; SUBSYS=ALL logs every call, which helps to debug and slows a run.',
        evidence: { kind: 'run', source: "sl.lookup('NCCL variables')" },
      };
    },
  },
];

/** Defaults of the document's variables; undefined: NCCL chooses. Source: NCCL 2.28's user guide, environment variables. */
const NCCL_DEFAULTS: Readonly<Record<string, string | undefined>> = {
  NCCL_DEBUG: undefined,
  NCCL_DEBUG_SUBSYS: 'INIT,BOOTSTRAP,ENV',
  NCCL_SOCKET_IFNAME: undefined,
  NCCL_IB_DISABLE: '0',
  NCCL_IB_GID_INDEX: '-1',
};

function readYaml(): Readonly<Record<string, unknown>> {
  return parse(ACCELERATE_YAML) as Record<string, unknown>; // the text above is a mapping
}

function holds(
  section: Readonly<Record<string, unknown>> | undefined,
  stated: Readonly<Record<string, unknown>>,
): boolean {
  return Object.entries(stated).every(([key, value]) => section?.[key] === value);
}

function warningsOf(input: TrainConfigInput): string[] {
  return configWarnings(input, parseTrainConfig(input), MACHINES * GPUS_EACH);
}

function linesNotIn(text: string, other: string): string[] {
  const known = new Set(other.split('\n'));
  return text.split('\n').filter((line) => !known.has(line));
}
