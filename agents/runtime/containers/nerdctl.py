"""containerd by nerdctl."""

from agents.runtime.containers.dockerlike import Docker


class Nerdctl(Docker):
    init = False  # it brings no first process of its own

    def pull(self, image: str) -> tuple[str, ...]:
        return (self.program, "pull", "--quiet", image)
