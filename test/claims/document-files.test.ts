import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'yaml';
import { ACCELERATE_YAML, MODEL_PATHS, NCCL_ENV } from '../../src/claims/accelerate-multinode/formulas';
import { environmentOf } from '../../src/claims/claim';
import { testData } from '../support/paths';

const readDialect = (name: string): string => readFileSync(testData(`dialects/${name}`), 'utf8');

test("the claims' copy of the Accelerate YAML equals the document's file", () => {
  assert.deepEqual(parse(ACCELERATE_YAML), parse(readDialect('accelerate_4x8.yaml')));
});

test("the claims' copy of the model paths equals the document's", () => {
  assert.deepEqual(MODEL_PATHS, JSON.parse(readDialect('model_paths.json')));
});

test("the claims' copy of NCCL's variables equals the document's", () => {
  const pairs = readDialect('nccl.env')
    .trim()
    .split('\n')
    .map((line) => line.replace('export ', '').split('='));
  assert.deepEqual(NCCL_ENV, Object.fromEntries(pairs));
  const stated = environmentOf('accelerate-multinode').filter(({ item }) => item in NCCL_ENV);
  assert.deepEqual(Object.fromEntries(stated.map((part) => [part.item, part.stated])), NCCL_ENV);
});
