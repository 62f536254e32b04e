import assert from 'node:assert/strict';
import { test } from 'node:test';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { exportedLines, launchLines } from '../../../src/programs/export/launch-lines';
import type { BundleFacts, BundleModel, Target } from '../../../src/programs/export/target';
import { dialects, targets } from '../../../src/programs/registry/registry';
import type { KeyTable } from '../../../src/programs/rows/key-row';
import type { ReadLine } from '../../../src/programs/rows/reading';
import { HAS_ALL_CASES } from '../../support/cases';
import { LLAMA } from './export-fixture';

/** Keys of launchers that read calls 'none' or 'planned', because ranks here do not use them, and that exports have nevertheless. */
const CARRIED =
  /^(dynamo_\w+|debug|downcast_bf16|enable_cpu_affinity|main_training_function|same_network|tpu_env|tpu_use_cluster|tpu_use_sudo|use_cpu)$/;

/** Returns the keys of a table for a launcher, without their sections. */
function keysIn(table: KeyTable): readonly string[] {
  return Object.entries(table).flatMap(([key, { effect, parts }]) => {
    if (parts !== undefined) return keysIn(parts);
    return effect === 'exported' || CARRIED.test(key) ? [key] : [];
  });
}

/** Every key of a launcher, of all programs. */
const KEYS = [...new Set(dialects().flatMap(({ keys }) => keysIn(keys)))].filter(
  // A file of hosts has a list in place of a value, and launch-lines.test.ts reads one.
  (key) => key !== 'hosts',
);

/** Returns a line with a value that no bundle has by itself. */
function lineOf(key: string): ReadLine {
  const isPort = /port$/i.test(key);
  const isCount = /^(max_restarts|monitor_interval|machine_rank|node_rank)$/i.test(key);
  const value = isPort ? 29_877 : isCount ? 97 : /addr|_ip$/i.test(key) ? '10.9.8.7' : 'sample97';
  const place = { file: 'settings', line: 1, key: key === key.toUpperCase() ? key : `--${key}` };
  return { ...place, value, effect: CARRIED.test(key) ? 'none' : 'exported', why: 'the reason' };
}

const WAN: TrainConfigInput = {
  model: 'wan2.2-i2v-a14b',
  data: 'synthetic',
  parallel: { strategy: 'ZERO_2' },
};

/** Every target, also in its form for video models. */
const TARGETS: readonly (readonly [name: string, target: Target, input: TrainConfigInput])[] = [
  ...targets(),
].flatMap(([name, target]) => [
  [name, target, { model: { ...LLAMA, tied: false }, batch: 2 }] as const,
  ...(target.videos === undefined ? [] : [[`${name} of videos`, target.videos, WAN] as const]),
]);

function factsOf(input: TrainConfigInput, lines: readonly ReadLine[]): BundleFacts {
  const config = parseTrainConfig({ steps: 1, ...input });
  const shape = modelShape(config) as BundleModel; // a llama or a dit
  return { config, shape, machines: 2, gpusPerMachine: 4, firstStep: 0, hasWeights: false, lines };
}

test('there are keys of all launchers', () => {
  for (const key of [
    'main_process_ip',
    'master_port',
    'NCCL_SOCKET_IFNAME',
    'rdzv_id',
    'dynamo_backend',
    'same_network',
  ])
    assert.ok(KEYS.includes(key), key);
  assert.ok(KEYS.length > 60, `${KEYS.length}`);
});

for (const [name, target, input] of TARGETS) {
  test(`${name}: each key of a launcher is in the files that the report names, or the report says that it is in none`, () => {
    const here = KEYS.filter((_, i) => HAS_ALL_CASES || i % 3 === 0);
    const wrong = here.flatMap((key) => {
      const line = lineOf(key);
      const facts = factsOf(input, [line]);
      assert.deepEqual(launchLines(facts.lines), [line], key);
      const texts = new Map(target.files(facts).map(({ path, text }) => [path, text]));
      const [reported, ...more] = exportedLines(facts, target);
      assert.ok(reported !== undefined && more.length === 0, key);
      const having = [...texts].flatMap(([path, text]) => (text.includes(String(line.value)) ? [path] : []));
      return reported.files.join() === having.join()
        ? []
        : [`${key}: ${reported.files}, but it is in ${having}`];
    });
    assert.deepEqual(wrong, []);
  });
}

test('what decides where machines meet, and the variables of NCCL, are in the files of every target that starts ranks', () => {
  const variables = KEYS.filter((key) => key.startsWith('NCCL_'));
  assert.ok(variables.length > 10);
  for (const [name, target, input] of TARGETS) {
    const isIn = (key: string): boolean =>
      exportedLines(factsOf(input, [lineOf(key)]), target).every(({ files }) => files.length > 0);
    assert.deepEqual(
      variables.filter((key) => !isIn(key)),
      [],
      name,
    );
    // Slurm and Kubernetes know their machines, and Kubernetes gives pods a port.
    if (!/^(slurm|kubernetes)/.test(name)) assert.ok(isIn('main_process_ip') && isIn('master_addr'), name);
    if (!name.startsWith('kubernetes')) assert.ok(isIn('main_process_port') && isIn('master_port'), name);
    if (name.startsWith('accelerate'))
      for (const key of ['dynamo_backend', 'same_network', 'rdzv_backend'])
        assert.ok(isIn(key), `${name}: ${key}`);
  }
});
