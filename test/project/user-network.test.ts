import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../support/paths';

const ROOT = repositoryRoot();

/** Options and variables by which a script would override the person's registry, index, proxy or authority. */
const OVERRIDES =
  /['"=\s](--registry|--index-url|--extra-index-url|--trusted-host|--proxy|--cert|--cafile)\b|(npm_config_(registry|proxy|https_proxy|cafile|strict_ssl)|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|PROXY|CERT)|HTTPS?_PROXY|NODE_TLS_REJECT_UNAUTHORIZED)['"]?\s*[:=]\s*(?!URL|FILE)/i;

test("scripts never override the user's registry, index, proxy or certificate authority", () => {
  const scripts = readdirSync(join(ROOT, 'scripts'), { recursive: true, encoding: 'utf8' });
  for (const name of scripts.filter((file) => /\.(mjs|py|txt)$/.test(file))) {
    assert.doesNotMatch(readFileSync(join(ROOT, 'scripts', name), 'utf8'), OVERRIDES, name);
  }
  assert.doesNotMatch(readFileSync(join(ROOT, '.npmrc'), 'utf8'), /registry|proxy|cafile|strict-ssl/);
});

test('the lock file names no registry, so that packages come from the configured one', () => {
  assert.doesNotMatch(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'), /"resolved": "https?:/);
});
