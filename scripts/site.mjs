import { ensureBuild } from './lib/build.mjs';
import { ensurePackages } from './lib/packages.mjs';
import { BUILT_SITE, buildSite, checkSite } from './lib/site/site.mjs';
import { runMain, step } from './lib/step.mjs';

await runMain(async () => {
  await step('npm packages', ensurePackages);
  await step('build', ensureBuild);
  await buildSite();
  await checkSite();
  process.stdout.write(`The site is in ${BUILT_SITE}: npx --prefix site vitepress preview site shows it\n`);
});
