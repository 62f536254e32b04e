import { stringify } from 'yaml';
import { isGathered, isSharded, STRATEGIES } from '../../config';
import { isPlaceholder } from '../rows/values';
import { deepSpeedConfig } from './deepspeed-config';
import { mainLine, portOf, shellFile } from './launch-files';
import { launchOf } from './launch-lines';
import { type BundleFacts, type BundleFile, builtInShape, nameIn, worldOf } from './target';
import { BLOCK_CLASSES } from './train-script';

/** Whether Accelerate uses DeepSpeed: only for ZERO_1 and ZERO_2, because FSDP would shard parameters too. */
export function isByDeepSpeed({ config }: BundleFacts): boolean {
  const { strategy } = config.parallel;
  return isSharded(strategy, 'optimizer') && !isGathered(strategy);
}

/** The program that Accelerate starts. */
interface Started {
  /** Its commands, one after the other: the script and its arguments. */
  readonly scripts: readonly string[];
  /** Lines of the launch script before the commands. */
  readonly before?: readonly string[];
  /** The class of the model's blocks; undefined if the model's own code names the class. */
  readonly blockClass: string | undefined;
  /** The settings of DeepSpeed that are in the YAML in place of ds_config.json; undefined: DeepSpeed does not train, or has ds_config.json. */
  readonly deepSpeed?: Readonly<Record<string, unknown>> | undefined;
  /** The precision, if the program has one only; undefined: that of the config. */
  readonly precision?: 'bf16';
}

/** Returns one YAML file and one launch script per machine; the YAML files differ only in machine_rank. */
export function accelerateFiles(
  facts: BundleFacts,
  started: Started = { scripts: ['train.py'], blockClass: BLOCK_CLASSES[builtInShape(facts).kind] },
): BundleFile[] {
  const perMachine = Array.from({ length: facts.machines }, (_, machine) => [
    { path: `accelerate_${machine}.yaml`, text: yamlOf(facts, machine, started) },
    launchFile(facts, machine, started),
  ]);
  const config = hasDeepSpeedFile(facts, started)
    ? [{ path: 'ds_config.json', text: deepSpeedConfig(facts, { hasOptimizer: false }) }]
    : [];
  return [...perMachine.flat(), ...config];
}

/** Whether DeepSpeed's settings are in ds_config.json. */
function hasDeepSpeedFile(facts: BundleFacts, { deepSpeed }: Started): boolean {
  return isByDeepSpeed(facts) && deepSpeed === undefined;
}

function yamlOf(facts: BundleFacts, machine: number, started: Started): string {
  const { config, machines } = facts;
  const { address, rendezvous, dynamo, accelerate } = launchOf(facts);
  const { debug = false, main_training_function = 'main', same_network = true, use_cpu = false } = accelerate;
  const { paramDtype = null } = config.mixedPrecision ?? {};
  const precision = { bfloat16: 'bf16', float16: 'fp16', float32: 'no' } as const;
  const document = {
    compute_environment: 'LOCAL_MACHINE',
    ...accelerate,
    debug,
    ...strategyOf(facts, started),
    machine_rank: machine,
    ...(Object.keys(dynamo).length > 0 && { dynamo_config: dynamo }),
    main_process_ip: address ?? (machines === 1 ? '127.0.0.1' : 'machine-0'),
    main_process_port: Number(portOf(facts)),
    main_training_function,
    // If there is a ds_config.json, it has the precision, and Accelerate refuses a precision here.
    ...(!hasDeepSpeedFile(facts, started) && {
      [nameIn('accelerate', 'mixedPrecision')]: started.precision ?? precision[paramDtype ?? 'float32'],
    }),
    num_machines: machines,
    num_processes: worldOf(facts),
    rdzv_backend: rendezvous.backend ?? 'static',
    ...(rendezvous.conf !== undefined && { rdzv_conf: rendezvous.conf }),
    same_network,
    use_cpu,
  };
  // PyYAML reads YAML 1.1, in which an unquoted `no` means false.
  return stringify(document, { version: '1.1' });
}

/** Returns the part of the YAML that says how ranks share the model. */
function strategyOf(facts: BundleFacts, { blockClass, deepSpeed }: Started) {
  const { config, machines, gpusPerMachine } = facts;
  const { strategy, mesh } = config.parallel;
  if (isByDeepSpeed(facts) || deepSpeed !== undefined) {
    const deepspeed = deepSpeed ?? { deepspeed_config_file: 'ds_config.json', zero3_init_flag: false };
    // 'standard' is Accelerate's own launcher, which the launch scripts start on each machine; the default is pdsh.
    const launcher = machines === 1 ? {} : { deepspeed_multinode_launcher: 'standard' };
    return { distributed_type: 'DEEPSPEED', deepspeed_config: { ...deepspeed, ...launcher } };
  }
  if (!isSharded(strategy, 'optimizer'))
    return { distributed_type: worldOf(facts) === 1 ? 'NO' : 'MULTI_GPU' };
  return {
    distributed_type: 'FSDP',
    fsdp_config: fsdpSection(facts, blockClass),
    ...(STRATEGIES[strategy].isHybrid && {
      parallelism_config: {
        parallelism_config_dp_replicate_size: mesh?.dpReplicate ?? machines,
        parallelism_config_dp_shard_size: mesh?.dpShard ?? gpusPerMachine,
      },
    }),
  };
}

/** Returns Accelerate's settings of FSDP 2; transformers' Trainer takes the same settings. */
export function fsdpSection({ config, shape }: BundleFacts, blockClass: string | undefined) {
  const { strategy, wrap, reshardAfterForward } = config.parallel;
  const layers = wrap === 'linear' ? 'Linear' : blockClass;
  const isOneUnit = wrap === 'root' || (shape.kind === 'own' && layers === undefined);
  return {
    fsdp_version: 2,
    ...(isOneUnit
      ? { fsdp_auto_wrap_policy: 'NO_WRAP' }
      : {
          fsdp_auto_wrap_policy: 'TRANSFORMER_BASED_WRAP',
          ...(layers !== undefined && { fsdp_transformer_layer_cls_to_wrap: layers }),
        }),
    fsdp_reshard_after_forward:
      typeof reshardAfterForward === 'boolean'
        ? reshardAfterForward
        : STRATEGIES[strategy].reshardAfterForward,
    fsdp_offload_params: config.offload.parameters,
    fsdp_cpu_ram_efficient_loading: false,
    fsdp_state_dict_type: 'SHARDED_STATE_DICT',
  };
}

function launchFile(facts: BundleFacts, machine: number, { scripts, before = [] }: Started): BundleFile {
  const { machines } = facts;
  const port = `PORT=\${PORT:-${portOf(facts)}}`;
  const path = `launch_${machine}.sh`;
  const start = (address: string): readonly string[] =>
    scripts.map(
      (script, index) =>
        `${index === scripts.length - 1 ? 'exec ' : ''}accelerate launch --config_file accelerate_${machine}.yaml ${address}--main_process_port "$PORT" ${script}`,
    );
  if (machines === 1)
    return shellFile(path, facts, '# Starts all ranks of this machine: ./launch_0.sh', {
      commands: [before, port, start('')],
    });
  const check =
    machine === 0
      ? [
          'if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then',
          '  echo "port $PORT is in use on this machine; choose another: PORT=29501, for all machines" >&2',
          '  exit 1',
          'fi',
        ]
      : [
          'for attempt in $(seq 120); do',
          '  if (exec 3<>"/dev/tcp/$MAIN/$PORT") 2>/dev/null; then break; fi',
          '  if [ "$attempt" -eq 1 ]; then echo "waiting for $MAIN:$PORT (start launch_0.sh there)"; fi',
          '  if [ "$attempt" -eq 120 ]; then',
          '    echo "$MAIN:$PORT does not answer: is launch_0.sh running there, and does a firewall close the port?" >&2',
          '    exit 1',
          '  fi',
          '  sleep 2',
          'done',
        ];
  const comment = `# Run on machine ${machine} of ${machines}, in this folder on a volume that all machines mount: MAIN=address-of-machine-0 ./${path}`;
  const { address = 'machine-0' } = launchOf(facts);
  const main = isPlaceholder(address)
    ? [mainLine(address, facts), port]
    : `MAIN=\${MAIN:-${address}} ${port}`;
  return shellFile(path, facts, comment, {
    commands: [before, main, check, start('--main_process_ip "$MAIN" ')],
  });
}
