// Accessibility by axe-core: no finding of the grades serious and critical.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const axe = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/* Fails on serious findings in the page as it is shown, and where title and main heading are missing */
export async function audit(page, view) {
  await page.evaluate(axe);
  const findings = await page.evaluate(async () => {
    // Values in the middle of a transition are nobody's.
    await Promise.all(document.getAnimations().map(animation => animation.finished.catch(() => {})));
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 5).map(({ html, any }) => `${html.slice(0, 120)} ${any[0]?.message ?? ''}`).join(' | ')}`);
  });
  assert.deepEqual(findings, [], `axe-core on ${view}`);
  const [title, headings] = await page.evaluate(() => [document.title,
    [...document.querySelectorAll('h1')].filter(heading => heading.checkVisibility()).map(({ textContent }) => textContent)]);
  assert.match(title, /\S · Batch First$/, view);
  assert.equal(headings.length, 1, `${view} has ${headings.length} main headings: ${headings}`);
  return title;
}
