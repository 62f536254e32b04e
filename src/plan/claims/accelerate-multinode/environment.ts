import type { StatedPart } from '../stated-part';
import { NCCL_ENV } from './document-files';

const PACKAGES = 'packages';
const YAML = 'settings for several machines';
const NCCL = 'NCCL variables';

function variable(
  name: keyof typeof NCCL_ENV,
): Pick<StatedPart, 'item' | 'section' | 'stated' | 'probe' | 'claim'> {
  return {
    item: name,
    section: NCCL,
    stated: NCCL_ENV[name],
    probe: { kind: 'variable', name },
    claim: 'acc.nccl',
  };
}

/** The environment of "Accelerate on 4 machines x 8 GPUs with DiffSynth-Studio / Wan2.2-I2V-A14B". */
export const STATED_BY_ACCELERATE_MULTINODE: readonly StatedPart[] = [
  {
    item: 'DiffSynth-Studio',
    section: 'source',
    stated: 'branch wan2.2, installed from source',
    probe: { kind: 'package', name: 'diffsynth' },
    needed: ['cluster'],
    why: 'It has the training script and the model. Here a small Wan2.2 is built in; shardlab read says what the script’s arguments mean.',
  },
  {
    item: 'PyTorch, CUDA, driver, NCCL',
    section: PACKAGES,
    stated: 'no versions',
    probe: { kind: 'torch' },
    needed: ['engine torch', 'cluster'],
    why: 'pip chooses them when DiffSynth-Studio is installed, on each machine on its own: compare the four machines, because different versions of NCCL do not work together.',
  },
  {
    item: 'Accelerate',
    section: YAML,
    stated: 'no version',
    probe: { kind: 'package', name: 'accelerate' },
    needed: ['cluster'],
    why: 'It reads the YAML and starts torchrun’s agent on its machine. Here shardlab run takes the same file, and shardlab export --to accelerate writes one.',
  },
  {
    item: 'DeepSpeed',
    section: PACKAGES,
    stated: 'no version',
    probe: { kind: 'package', name: 'deepspeed' },
    needed: ['engine torch', 'cluster'],
    why: "The YAML's distributed_type. Engine torch needs it only for job.train(config, { framework: 'deepspeed' }); strategy ZERO_2 needs no package here.",
  },
  {
    item: 'package index',
    section: PACKAGES,
    stated: "Tsinghua's mirror of PyPI",
    probe: { kind: 'variable', name: 'PIP_INDEX_URL' },
    needed: [],
    why: 'A mirror in China is faster there; every index has the same files.',
  },
  {
    item: 'netcat',
    section: PACKAGES,
    stated: 'apt package',
    probe: { kind: 'program', name: 'nc' },
    needed: [],
    why: 'It tests whether machine 0 answers. shardlab doctor --reach does that too, and says what is wrong.',
    claim: 'acc.reachable',
  },
  {
    item: 'net-tools',
    section: PACKAGES,
    stated: 'apt package, for ifconfig',
    probe: { kind: 'program', name: 'ifconfig' },
    needed: [],
    why: 'It shows the addresses of a machine; `ip address` of every Linux does too, and so does the row of main_process_ip below.',
  },
  {
    item: 'git-lfs',
    section: PACKAGES,
    stated: 'apt package',
    probe: { kind: 'program', name: 'git-lfs' },
    needed: ['cluster'],
    why: 'Without it, the example videos are files of some bytes that only name the real ones. The library here makes its own videos.',
    claim: 'acc.lfs',
  },
  {
    item: 'modelscope',
    section: 'example data',
    stated: 'command that downloads the videos',
    probe: { kind: 'program', name: 'modelscope' },
    needed: ['cluster'],
    why: 'It downloads the example videos into one folder; the other machines need the same folder, shared or copied.',
  },
  {
    item: 'machines',
    section: YAML,
    stated: '4',
    probe: { kind: 'machines', least: 4 },
    needed: ['cluster'],
    why: 'Each starts its own agent with its machine_rank. Here all ranks are on one machine; engine torch also starts them on other hosts (launcher and hosts of sl.launch).',
    claim: 'acc.per_machine',
  },
  {
    item: 'GPUs',
    section: YAML,
    stated: '8 per machine, 32 in all; kind not stated',
    probe: { kind: 'gpus', least: 8 },
    needed: ['cluster'],
    why: 'num_processes is one per GPU. Fewer ranks train the same here: shardlab run takes the file with --ranks 4.',
    claim: 'acc.ranks',
  },
  {
    item: 'main_process_ip',
    section: YAML,
    stated: '10.233.xx.xx (masked)',
    probe: { kind: 'networks' },
    needed: ['cluster'],
    why: 'It is the address of machine 0 in a network that all machines share, the same in all four files.',
  },
  {
    item: 'main_process_port',
    section: YAML,
    stated: '12345',
    probe: { kind: 'port', port: 12_345 },
    needed: ['cluster'],
    why: 'Any free port of machine 0 will do. All machines must reach it, and NCCL and gloo open further ports that the system chooses.',
    claim: 'acc.reachable',
  },
  {
    item: 'memory',
    section: YAML,
    stated: 'optimizer on the CPU; size not stated',
    probe: { kind: 'memory', least: 43e9 },
    needed: ['cluster'],
    why: 'Adam in fp32 has 12 bytes per parameter: 172 GB for the 14.3B trained parameters, so 43 GB on each of the four machines.',
    claim: 'acc.expert',
  },
  {
    ...variable('NCCL_DEBUG'),
    needed: [],
    why: 'It prints which interface and adapters NCCL chose: set it for the first start, and remove it when the run works.',
  },
  {
    ...variable('NCCL_DEBUG_SUBSYS'),
    needed: [],
    why: 'ALL also logs every collective of every rank, which makes logs of many GB. INIT,NET suffices to see a wrong interface.',
  },
  {
    ...variable('NCCL_SOCKET_IFNAME'),
    probe: { kind: 'interface', name: NCCL_ENV.NCCL_SOCKET_IFNAME },
    needed: ['cluster'],
    why: 'Ranks find each other over this interface. Every machine must have one whose name begins so; with one network only, NCCL finds it without the variable. gloo has its own: GLOO_SOCKET_IFNAME.',
  },
  {
    ...variable('NCCL_IB_DISABLE'),
    needed: [],
    why: '0 is the default: NCCL uses InfiniBand or RoCE if there are adapters, and sockets if there are none. 1 is for a test whether InfiniBand is the cause of a problem.',
  },
  {
    ...variable('NCCL_IB_GID_INDEX'),
    probe: { kind: 'adapters' },
    needed: [],
    why: 'On RoCE it chooses the address of the adapter, and 3 is usually RoCE v2 over IPv4. NCCL 2.21 and newer choose it themselves; a wrong number breaks every connection.',
  },
  {
    item: 'shared volume',
    section: 'models',
    stated: '/public/huggingface-models',
    probe: { kind: 'path', path: '/public/huggingface-models' },
    needed: ['cluster'],
    why: 'It has the weights of Wan2.2-I2V-A14B, T5 and the VAE on all four machines, so that nothing is downloaded four times. The path exists at one provider only.',
    claim: 'acc.weights',
  },
];
