"""Makes the page of the first page's agent, which plays in the reader's browser.

``python docs/playing.py [ARCHIVE]`` writes ``docs/gallery/play.html``, which git ignores, from an agent of the zoo.
``ARCHIVE`` is the archive of onnxruntime-web, by default the one in the working directory. A site that is built without
the page leaves the agent out.
"""

from __future__ import annotations

import sys
from pathlib import Path

AGENT = "zoo:ppo/CartPole-v1"
PAGE = Path(__file__).resolve().parent / "gallery" / "play.html"


def write(archive: str | None = None, page: Path = PAGE) -> None:
    """Export the agent of the zoo. Raises ConfigError without the archive."""
    from rlcore import export_policies

    page.parent.mkdir(exist_ok=True)
    settings = {} if archive is None else {"runtime": str(Path(archive).absolute())}
    export_policies(AGENT, "web", page, settings=settings, force=True)


def front(page: Path = PAGE) -> str:
    """Return the section of the first page; nothing without the page.

    The frame follows the site's light or dark colors, and loads only where a reader scrolls to it.
    """
    if not page.is_file():
        return ""
    megabytes = page.stat().st_size / 1e6
    return f"""## Push the pole

<iframe class="player" src="gallery/{page.name}" title="A trained policy balances a pole" loading="lazy"></iframe>
<script>
const player = document.querySelector("iframe.player");
const follow = () => {{
  const dark = document.body.dataset.mdColorScheme === "slate";
  player.src = "gallery/{page.name}#" + (dark ? "dark" : "light");
}};
follow();
new MutationObserver(follow).observe(document.body, {{ attributeFilter: ["data-md-color-scheme"] }});
</script>

PPO's policy of the zoo plays in your browser: `rlcore export {AGENT} --format web` makes such a page of
{megabytes:.0f} MB ([Export policies](how-to/export.md#play-a-policy-in-a-browser))."""


if __name__ == "__main__":
    write(*sys.argv[1:2])
