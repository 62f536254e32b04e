import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseTrainConfig } from '../../../src/config/train-config';
import { planBundle, writeBundle } from '../../../src/programs/bundle/bundle';
import { launchLines } from '../../../src/programs/export/launch-lines';
import { type Foreign, readConfig } from '../../../src/programs/read';
import { targetNames } from '../../../src/programs/registry/registry';
import { GPT, LLAMA, testFolder } from './export-fixture';

const FILES = {
  'accelerate.yaml': [
    'compute_environment: LOCAL_MACHINE',
    'distributed_type: FSDP',
    'machine_rank: 0',
    'main_process_ip: 10.0.0.7',
    'main_process_port: 29501',
    'rdzv_backend: c10d',
    'rdzv_conf: timeout=900',
    'num_machines: 2',
    'num_processes: 4',
    'dynamo_config:',
    '  dynamo_backend: INDUCTOR',
    '  dynamo_mode: max-autotune',
  ],
  'train.sh': [
    'export NCCL_DEBUG=INFO',
    'export MASTER_ADDR=10.1.2.3',
    'NCCL_IB_HCA="mlx5_0,mlx5_1" NCCL_SOCKET_IFNAME="eth0 eth1" NPROC_PER_NODE=2 NNODES=2 NODE_RANK=0 MASTER_PORT=29777 swift sft --tuner_type full --deepspeed zero2',
  ],
  hostfile: ['worker-1 slots=2', 'worker-2 slots=2'],
} as const;

/** Settings of other programs, and the texts that the files of some targets have because of them. */
const READ: readonly {
  readonly asked: Foreign;
  readonly have: Readonly<Partial<Record<string, readonly string[]>>>;
}[] = [
  {
    asked: 'accelerate.yaml',
    have: {
      accelerate: [
        'main_process_ip: 10.0.0.7',
        'main_process_port: 29501',
        'rdzv_backend: c10d',
        'rdzv_conf: timeout=900',
        'dynamo_config:\n  dynamo_backend: INDUCTOR\n  dynamo_mode: max-autotune',
        `MAIN=\${MAIN:-10.0.0.7} PORT=\${PORT:-29501}`,
      ],
      torchrun: [
        `MAIN="\${MAIN:-10.0.0.7}"`,
        '--rdzv-backend=c10d',
        '"$MAIN:29501"',
        '--rdzv-conf=timeout=900',
      ],
      swift: [`MAIN="\${MAIN:-10.0.0.7}"`, 'MASTER_PORT=29501'],
    },
  },
  {
    asked: [
      ...[
        'torchrun',
        '--nnodes=2',
        '--nproc_per_node=2',
        '--rdzv_backend=c10d',
        '--rdzv-endpoint=node0:29400',
      ],
      ...['--rdzv_id=job7', '--max_restarts=3', '--node_rank', '0', 'train.py', '--learning_rate', '0.1'],
    ],
    have: {
      torchrun: ['--rdzv-backend=c10d', '--rdzv-endpoint=node0:29400', '--rdzv-id=job7', '--max-restarts=3'],
      slurm: ['--rdzv-endpoint=node0:29400', '--rdzv-id=job7', '--max-restarts=3'],
      torchtitan: ['--rdzv-endpoint=node0:29400', '--rdzv-id=job7'],
      megatron: ['--rdzv-endpoint=node0:29400', '--rdzv-id=job7'],
      accelerate: ['main_process_ip: node0', 'main_process_port: 29400'],
    },
  },
  {
    asked: 'train.sh',
    have: {
      swift: ['MASTER_PORT=29777', `MAIN="\${MAIN:-10.1.2.3}"`],
      accelerate: ['main_process_ip: 10.1.2.3', 'main_process_port: 29777'],
      kubernetes: ['{ name: NCCL_IB_HCA, value: "mlx5_0,mlx5_1" }'],
      ...Object.fromEntries(
        (['torchrun', 'deepspeed', 'slurm', 'llamafactory'] as const).map((name) => [
          name,
          [
            'export NCCL_DEBUG=INFO',
            'export NCCL_IB_HCA=mlx5_0,mlx5_1',
            "export NCCL_SOCKET_IFNAME='eth0 eth1'",
          ],
        ]),
      ),
    },
  },
  {
    asked: ['deepspeed', '--hostfile=hostfile', '--master_port', '29600', '--launcher', 'ssh', 'train.py'],
    have: {
      deepspeed: ['worker-1 slots=2\nworker-2 slots=2\n', `--master_port="\${PORT:-29600}"`],
      torchrun: [`MAIN="\${MAIN:-worker-1}"`, `--master-port="\${PORT:-29600}"`],
    },
  },
];

/** Returns the texts of the bundle that a target gets from settings that were read, and its report. */
function bundleFrom(cwd: string, asked: Foreign, to: string) {
  const { lines, machines } = readConfig(asked, { cwd });
  const model = ['swift', 'torchtitan'].includes(to) ? LLAMA : { ...GPT, tied: false };
  const config = parseTrainConfig({ model, batch: 2, steps: 1 });
  const out = join(cwd, to);
  const place = { to, out, machines: machines ?? 1, gpusPerMachine: 2 };
  const report = writeBundle(planBundle(config, place, { lines }), { prepared: undefined });
  const texts = report.files
    .filter((file) => /\.(sh|sbatch|ya?ml|toml)$|hostfile$/.test(file))
    .map((file) => readFileSync(join(out, file), 'utf8'));
  return { lines, report, text: texts.join('\n'), said: readFileSync(join(out, 'REPORT.md'), 'utf8') };
}

for (const { asked, have } of READ) {
  test(`a bundle has the lines for a launcher, or its report names them: ${String(asked)}`, (context) => {
    const folder = testFolder(context);
    for (const [name, text] of Object.entries(FILES))
      writeFileSync(join(folder, name), `${text.join('\n')}\n`);
    for (const to of targetNames()) {
      const { lines, report, text, said } = bundleFrom(folder, asked, to);
      for (const part of have[to] ?? []) assert.ok(text.includes(part), `${to} has ${part}:\n${text}`);
      const exported = launchLines(lines);
      assert.ok(exported.length > 0);
      assert.deepEqual(
        report.lines.map(({ key }) => key),
        exported.map(({ key }) => key),
      );
      for (const { key, files, value, why } of report.lines) {
        const where = files.length === 0 ? `not in this bundle: ${why}` : `in ${files.join(', ')}`;
        assert.ok(
          said.includes(`- \`${key}\`: ${JSON.stringify(value)} (`) && said.includes(where),
          `${to}: ${key}`,
        );
        if (files.length > 0)
          assert.ok(
            String(value)
              .split(':')
              .every((part) => text.includes(part)),
            `${to}: ${key} ${value}`,
          );
      }
    }
  });
}

test('one machine meets nobody, unless a port was read', (context) => {
  const folder = testFolder(context);
  const command = ['torchrun', '--nproc_per_node=2', 'train.py', '--learning_rate', '0.1'];
  assert.match(bundleFrom(folder, command, 'torchrun').text, /torchrun --standalone --nnodes=1/);
  const [first = '', ...rest] = command;
  const atPort = bundleFrom(folder, [first, '--master_port=29511', ...rest], 'megatron').text;
  assert.match(atPort, /MAIN="\$\{MAIN:-127\.0\.0\.1\}"/);
  assert.match(
    atPort,
    /--nnodes=1 --node-rank=0 .*\n {2}--master-addr="\$MAIN" --master-port="\$\{PORT:-29511\}"/,
  );
});
