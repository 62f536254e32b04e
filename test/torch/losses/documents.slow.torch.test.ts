import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { ShardlabError } from '../../../src/core/errors';
import { readConfig } from '../../../src/programs/read';
import type { Job, TrainOptions } from '../../../src/session/run/job';
import { launch } from '../../../src/session/run/launch';
import { DOCUMENTS } from '../../programs/read-files';
import { lacksDeepSpeed, largestDifference, launchTorch } from '../torch-fixture';
import { DOCUMENT_CASES, type DocumentCase } from './document-cases';

const STEPS = 4;

type Settings = Readonly<Record<string, unknown>>;

/** Returns all that a document writes, with the sizes of its stand-in. */
function configOf({ texts, written, smaller }: DocumentCase): TrainConfigInput {
  const read = texts.map((text) => readConfig(text, { cwd: DOCUMENTS }).config);
  return [smaller, written, ...read].reduce<Settings>(
    (config, more) => filledUp(config, more as Settings),
    {},
  );
}

/** Adds the settings of `more` that `config` does not have; sections are filled up too. */
function filledUp(config: Settings, more: Settings): Settings {
  const isSection = (value: unknown): value is Settings =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !('kind' in value && 'dim' in value);
  const entries = Object.entries(more).map(([key, value]) => {
    const own = config[key];
    if (own === undefined) return [key, value];
    return [key, isSection(own) && isSection(value) ? filledUp(own, value) : own];
  });
  return { ...config, ...Object.fromEntries(entries) };
}

/** Returns a config without some settings. */
function without(config: Settings, paths: readonly string[]): Settings {
  const entries = Object.entries(config).flatMap(([key, value]) => {
    if (paths.includes(key)) return [];
    const inside = paths.flatMap((path) => (path.startsWith(`${key}.`) ? path.slice(key.length + 1) : []));
    return [[key, inside.length === 0 ? value : without(value as Settings, inside)]]; // a path leads into a section
  });
  return Object.fromEntries(entries);
}

async function lossesOn(
  job: Job,
  config: TrainConfigInput,
  options: TrainOptions,
): Promise<readonly number[]> {
  const run = await job.train(config, options);
  await run.step(STEPS);
  await run.dispose();
  return run.losses;
}

/** Checks that an error refuses exactly these settings. */
function refuses(missing: readonly string[]): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof ShardlabError && error.code === 'CONFIG', String(error));
    const { refused = [error.message] } = error.details as { readonly refused?: readonly string[] }; // as the check of settings writes it
    const paths = refused.map((text) => /^[\w.]+/.exec(text)?.[0].replace(/\.$/, ''));
    assert.deepEqual([...new Set(paths)].sort(), [...missing].sort());
    return true;
  };
}

describe('what the documents write trains on ranks of PyTorch with the losses of this library', () => {
  for (const ranks of [2, 8] as const) {
    it(`on ${ranks} ranks`, async (context) => {
      const here = await launch({ ranks });
      context.after(() => here.shutdown());
      const there = await launchTorch(context, { ranks });
      for (const one of DOCUMENT_CASES.filter((each) => each.ranks === ranks)) {
        const { framework, missing, bound } = one;
        const skip = framework === 'deepspeed' && lacksDeepSpeed();
        await context.test(one.name, { skip }, async (test) => {
          const config = configOf(one);
          if (missing.length > 0) await assert.rejects(there.train(config, { framework }), refuses(missing));
          const rest = without(config, missing);
          const ours = await lossesOn(here, rest, {});
          const theirs = await lossesOn(there, rest, { framework });
          const difference = largestDifference(ours, theirs);
          test.diagnostic(`largest difference ${difference.toExponential(1)}`);
          assert.ok(difference <= bound, `${difference} of ${bound}: ${theirs}; ${ours}`);
          assert.notEqual(ours.at(-1), ours[0]);
        });
      }
    });
  }
});
