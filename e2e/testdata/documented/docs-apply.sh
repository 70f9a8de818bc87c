apply_world
mkdir config
mv world.yaml config
holdpoint apply -f config --label platform
